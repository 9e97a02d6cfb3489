//! The chain value of a batch that is completed without the writer. The next batch, which another
//! thread may complete at the same time, repeats it in its header and waits for it there.

use crate::base::sync::{Condvar, Mutex, MutexGuard};
use std::sync::{Arc, PoisonError};

/// A chain value that one thread sets and others wait for.
#[derive(Clone, Debug)]
pub(crate) struct ChainValue(Arc<Cell>);

#[derive(Debug)]
struct Cell {
    state: Mutex<State>,
    is_set: Condvar,
}

#[derive(Debug)]
struct State {
    value: Value,
    /// Number of threads that wait. Without any, there is no system call to wake them.
    waiting: usize,
}

#[derive(Clone, Copy, Debug)]
enum Value {
    Pending,
    Known(u64),
    /// The batch could not be completed.
    Never,
}

/// Sets a chain value. If it is dropped unset, because its thread fails or panics, the waiting
/// threads learn that there is no value.
#[derive(Debug)]
pub(crate) struct ChainValueSetter(ChainValue);

impl ChainValue {
    /// The value, or `None` if the batch could not be completed. Waits.
    pub(crate) fn wait(&self) -> Option<u64> {
        let mut state = self.lock();
        loop {
            match state.value {
                Value::Pending => {
                    state.waiting += 1;
                    state = self.0.is_set.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.waiting -= 1;
                }
                Value::Known(chain) => return Some(chain),
                Value::Never => return None,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChainValueSetter {
    /// A value that is not known yet.
    pub(crate) fn new() -> Self {
        let state = Mutex::new(State { value: Value::Pending, waiting: 0 });
        Self(ChainValue(Arc::new(Cell { state, is_set: Condvar::new() })))
    }

    /// The value, to wait for it.
    pub(crate) fn value(&self) -> ChainValue {
        self.0.clone()
    }

    pub(crate) fn set(&self, chain: u64) {
        self.finish(Value::Known(chain));
    }

    fn finish(&self, as_value: Value) {
        let mut state = self.0.lock();
        if matches!(state.value, Value::Pending) {
            state.value = as_value;
            let is_awaited = state.waiting > 0;
            drop(state);
            if is_awaited {
                self.0.0.is_set.notify_all();
            }
        }
    }
}

impl Drop for ChainValueSetter {
    fn drop(&mut self) {
        self.finish(Value::Never);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn waiters_learn_the_value_or_that_there_is_none() {
        let setter = ChainValueSetter::new();
        let waiters: Vec<_> = (0..3)
            .map(|_| setter.value())
            .map(|value| thread::spawn(move || value.wait()))
            .collect();
        setter.set(7);
        setter.set(8);
        let value = setter.value();
        drop(setter);
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Some(7));
        }
        assert_eq!(value.wait(), Some(7));

        let setter = ChainValueSetter::new();
        let value = setter.value();
        let waiter = thread::spawn(move || value.wait());
        drop(setter);
        assert_eq!(waiter.join().unwrap(), None);
    }
}
