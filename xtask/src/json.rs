//! Writes JSON.

/// Formats an object with its fields in order; the values are JSON already.
pub(crate) fn object(fields: &[(&'static str, String)]) -> String {
    let fields: Vec<_> =
        fields.iter().map(|(name, value)| format!("{}:{value}", quote(name))).collect();
    format!("{{{}}}", fields.join(","))
}

/// Formats a string with its quotes.
pub(crate) fn quote(text: &str) -> String {
    let letters = text.chars().map(|letter| match letter {
        '"' | '\\' => format!("\\{letter}"),
        control if control.is_control() => format!("\\u{:04x}", u32::from(control)),
        other => other.to_string(),
    });
    format!("\"{}\"", letters.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_string_has_no_bare_quote_or_control_character() {
        assert_eq!(quote("a \"b\"\\\n"), r#""a \"b\"\\\u000a""#);
    }

    #[test]
    fn an_object_has_its_fields_in_order() {
        let fields = [("a", "1".to_owned()), ("b", quote("c"))];
        assert_eq!(object(&fields), r#"{"a":1,"b":"c"}"#);
    }
}
