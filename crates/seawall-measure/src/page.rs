//! The frame of every page that this program writes.

/// A whole page; `body` is HTML.
#[must_use]
pub fn page(title: &str, body: &str) -> String {
    include_str!("page.html").replace("@title@", &escaped(title)).replace("@body@", body)
}

/// Text as it is written in HTML.
#[must_use]
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
