//! The frame of every HTML page that this program writes.

/// Builds a whole page; `body` is HTML.
#[must_use]
pub fn page(title: &str, body: &str) -> String {
    include_str!("page.html").replace("@title@", &escaped(title)).replace("@body@", body)
}

/// Escapes text for HTML.
#[must_use]
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
