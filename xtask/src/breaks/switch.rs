//! Which break is on: built into the copy of a crate by `cargo xtask break`.

use std::ops::{Range, RangeInclusive};
use std::sync::LazyLock;

static CHOSEN: LazyLock<u32> = LazyLock::new(|| {
    let number = std::env::var("CATENA_BREAK").ok();
    number
        .and_then(|number| number.parse().ok())
        .unwrap_or(u32::MAX)
});

/// The number of the break that is on.
pub(crate) fn chosen() -> u32 {
    *CHOSEN
}

/// A number with neighbours.
pub(crate) trait Near: Copy {
    fn below(self) -> Option<Self>;
    fn above(self) -> Option<Self>;
}

macro_rules! near {
    ($($kind:ty)*) => {$(
        impl Near for $kind {
            fn below(self) -> Option<Self> {
                self.checked_sub(1)
            }
            fn above(self) -> Option<Self> {
                self.checked_add(1)
            }
        }
    )*};
}
near!(u8 u16 u32 u64 usize i32 i64);

impl Near for f64 {
    fn below(self) -> Option<Self> {
        Some(self.next_down())
    }
    fn above(self) -> Option<Self> {
        Some(self.next_up())
    }
}

/// Where there is no neighbour, nothing can be broken: this status says so.
fn or_void<T>(moved: Option<T>) -> T {
    moved.unwrap_or_else(|| std::process::exit(86))
}

/// The number itself, one less, or one more.
pub(crate) fn moved<T: Near>(number: T, way: u32) -> T {
    match way {
        0 => or_void(number.below()),
        _ => or_void(number.above()),
    }
}

/// A range one of whose ends is moved.
pub(crate) trait Ends {
    fn with_end_moved(&self, way: u32) -> Self;
}

impl<T: Near> Ends for RangeInclusive<T> {
    fn with_end_moved(&self, way: u32) -> Self {
        match way {
            0 | 1 => moved(*self.start(), way)..=*self.end(),
            _ => *self.start()..=moved(*self.end(), way - 2),
        }
    }
}

impl<T: Near> Ends for Range<T> {
    fn with_end_moved(&self, way: u32) -> Self {
        match way {
            0 | 1 => moved(self.start, way)..self.end,
            _ => self.start..moved(self.end, way - 2),
        }
    }
}
