//! Merge operators: functions that compute a new value from the old one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Computes the new value of a key from its old value and the operand in the record.
///
/// The result must depend only on these two inputs. The function need not be idempotent (`add` is
/// not): replay applies each record exactly once.
pub type MergeOperator =
    dyn Fn(Option<&[u8]>, &[u8]) -> Result<Vec<u8>, String> + Send + Sync + 'static;

/// The merge operators of a replay, by name.
///
/// # Examples
///
/// ```
/// use seawall_replay::Operators;
///
/// let operators = Operators::new().with("longest", |old, operand| {
///     let longer = old.filter(|old| old.len() >= operand.len()).unwrap_or(operand);
///     Ok(longer.to_vec())
/// });
/// assert_eq!(operators.merge("longest", Some(b"abc"), b"de")?, b"abc");
/// assert_eq!(operators.merge("add", None, &5u64.to_le_bytes())?, 5u64.to_le_bytes());
/// operators.merge("shortest", None, b"").unwrap_err();
/// # Ok::<(), String>(())
/// ```
#[derive(Clone)]
pub struct Operators(BTreeMap<String, Arc<MergeOperator>>);

impl Operators {
    /// Creates the built-in operators: `add` adds little-endian 64-bit integers with wraparound,
    /// and a missing value counts as 0; `append` appends bytes.
    #[must_use]
    pub fn new() -> Self {
        Self(BTreeMap::new()).with("add", add).with("append", append)
    }

    /// Adds an operator. Replaces one with the same name.
    #[must_use]
    pub fn with(
        mut self,
        name: impl Into<String>,
        operator: impl Fn(Option<&[u8]>, &[u8]) -> Result<Vec<u8>, String> + Send + Sync + 'static,
    ) -> Self {
        self.0.insert(name.into(), Arc::new(operator));
        self
    }

    /// Computes the new value.
    ///
    /// # Errors
    ///
    /// The operator is not registered, or it failed.
    pub fn merge(
        &self,
        operator: &str,
        has: Option<&[u8]>,
        operand: &[u8],
    ) -> Result<Vec<u8>, String> {
        let found = self.0.get(operator).ok_or_else(|| {
            let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
            format!("no merge operator `{operator}` is registered, only {}", known.join(", "))
        })?;
        found(has, operand)
    }
}

impl Default for Operators {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Operators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

fn add(has: Option<&[u8]>, operand: &[u8]) -> Result<Vec<u8>, String> {
    let number = |bytes: &[u8]| {
        let bytes = bytes.try_into().map_err(|_| format!("{} bytes, not 8", bytes.len()))?;
        Ok::<u64, String>(u64::from_le_bytes(bytes))
    };
    let sum = has.map_or(Ok(0), number)?.wrapping_add(number(operand)?);
    Ok(sum.to_le_bytes().to_vec())
}

#[expect(clippy::unnecessary_wraps, reason = "an operator may fail")]
fn append(has: Option<&[u8]>, operand: &[u8]) -> Result<Vec<u8>, String> {
    Ok([has.unwrap_or_default(), operand].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn add_refuses_values_that_are_not_numbers() {
        let operators = Operators::new();
        operators.merge("add", Some(b"1"), &[0; 8]).unwrap_err();
        operators.merge("add", None, b"1").unwrap_err();
        assert_eq!(operators.merge("append", Some(b"a"), b"b").unwrap(), b"ab");
    }

    #[test]
    fn unknown_operator_error_lists_the_known_ones() {
        let why = Operators::new().merge("max", None, b"").unwrap_err();
        assert_eq!(why, "no merge operator `max` is registered, only add, append");
    }
}
