//! Finds relative links in documents.

/// The lines and targets of links to other files, without those in code blocks.
pub(crate) fn relative_links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (line, text) in (1..).zip(text.lines()) {
        if text.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let plain: String = text.split('`').step_by(2).collect();
        let targets = plain.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        let defined = plain.starts_with('[').then(|| plain.split_once("]: ")).flatten();
        let targets = targets.chain(defined.map(|(_, target)| target.trim()));
        for target in targets {
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !file.contains(':') {
                found.push((line, file.to_owned()));
            }
        }
    }
    found
}

/// Resolves `target` in the file `from` to a path in the tree; `None` if it leaves the tree.
pub(crate) fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}
