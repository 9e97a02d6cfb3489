//! Blanks the comments and literals of Rust source, so that every remaining word is code.

/// Returns `text` with a space for each character of a comment or a quoted literal; line breaks
/// stay.
pub(crate) fn mask(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (hidden, length) = match literal_or_comment(rest) {
            Some(length) => (true, length),
            None => (false, word_length(rest).max(rest.chars().next().map_or(1, char::len_utf8))),
        };
        let (piece, tail) = rest.split_at(length);
        if hidden {
            code.extend(piece.chars().map(|c| if c == '\n' { c } else { ' ' }));
        } else {
            code.push_str(piece);
        }
        rest = tail;
    }
    code
}

/// Whether `c` can be part of a name or a number.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length in bytes of the name or number at the start of `text`.
pub(crate) fn word_length(text: &str) -> usize {
    text.find(|c| !is_word(c)).unwrap_or(text.len())
}

/// The length in bytes of the comment or literal at the start of `text`, if there is one.
fn literal_or_comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        Some(text.find('\n').unwrap_or(text.len()))
    } else if text.starts_with("/*") {
        Some(block_comment(text))
    } else if text.starts_with('"') {
        Some(string(text))
    } else {
        raw_string(text).or_else(|| character(text))
    }
}

/// The length of a block comment; block comments nest.
fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn raw_string(text: &str) -> Option<usize> {
    let opened = ["r", "br", "cr"].iter().find_map(|prefix| text.strip_prefix(prefix))?;
    let body = opened.trim_start_matches('#');
    let hashes = opened.len() - body.len();
    let body = body.strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = text.len() - body.len();
    Some(body.find(&end).map_or(text.len(), |at| start + at + end.len()))
}

/// The length of a character literal; `None` for a lifetime, which has no closing quote.
fn character(text: &str) -> Option<usize> {
    let body = text.strip_prefix('\'')?;
    let mut chars = body.char_indices();
    let (_, first) = chars.next()?;
    if first == '\\' {
        chars.next()?;
    }
    let (at, _) = if first == '\\' {
        chars.find(|(_, c)| *c == '\'')?
    } else {
        chars.next().filter(|(_, c)| *c == '\'')?
    };
    Some(at + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> String {
        mask(text).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_are_hidden_and_lines_kept() {
        assert_eq!(mask("a // b\nc /* d /* e */\nf */ g"), "a     \nc             \n     g");
    }

    #[test]
    fn strings_are_hidden_with_their_escapes() {
        assert_eq!(words(r#"a("b\"c", b"d") e"#), "a( , b ) e");
    }

    #[test]
    fn raw_strings_end_with_as_many_hashes_as_they_began() {
        assert_eq!(words("a(r##\"b\"# c\"##, br\"d\\\") e"), "a( , ) e");
    }

    #[test]
    fn lifetimes_are_code_and_characters_are_not() {
        let text = r"fn a<'b>(c: &'b str) { '\'' 'd' b'e' '\u{1F}' f }";
        assert_eq!(words(text), "fn a<'b>(c: &'b str) { b f }");
        assert_eq!(words("'\"' a '\"' b"), "a b");
    }

    #[test]
    fn a_raw_name_is_code() {
        assert_eq!(words("r#match + r"), "r#match + r");
    }

    #[test]
    fn what_never_ends_is_hidden_to_the_end() {
        assert_eq!(words("a /* b"), "a");
        assert_eq!(words("a \"b"), "a");
        assert_eq!(words("a r#\"b\""), "a");
    }
}
