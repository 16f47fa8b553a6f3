//! Records of fixed layout: values that lie in memory which outlives the NF.
//!
//! Beside a packet's life. A record is read and written field by field, little-endian, without
//! padding; any bytes are some value of it, so that spoiled memory gives wrong answers and never a
//! panic. A layout is what [`stored!`](crate::stored!) makes of a struct, in the order of its
//! fields; [`LAYOUT`](crate::store::LAYOUT) changes when one does.

use std::marker::PhantomData;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A line of memory, in bytes: what is fetched at once.
pub const LINE: usize = 64;

/// A value with a fixed layout.
pub trait Stored: Sized {
    /// Its length in bytes.
    const LEN: usize;

    /// Reads it from the front of `bytes`, which are at least [`LEN`](Self::LEN) long.
    fn load(bytes: &[u8]) -> Self;

    /// Writes it to the front of `bytes`, which are at least [`LEN`](Self::LEN) long.
    fn store(&self, bytes: &mut [u8]);
}

/// Where a field of the records `R` lies: it is read and written in place, without the rest.
#[derive(Debug)]
pub struct Field<R, T> {
    at: usize,
    of: PhantomData<fn(R) -> T>,
}

impl<R, T> Clone for Field<R, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R, T> Copy for Field<R, T> {}

impl<R, T> Field<R, T> {
    /// The field `at` bytes behind the front of its record.
    #[inline(always)]
    pub const fn at(at: usize) -> Self {
        let of = PhantomData;
        Self { at, of }
    }

    /// A field of this field.
    #[inline(always)]
    pub const fn then<U>(self, inner: Field<T, U>) -> Field<R, U> {
        Field::at(self.at + inner.at)
    }

    /// Where it lies, in bytes from the front of its record.
    #[inline(always)]
    pub const fn offset(self) -> usize {
        self.at
    }
}

impl<R: Stored, T: Stored> Field<R, T> {
    /// Reads it in a record, which is at least as long as records of its kind are.
    #[inline(always)]
    pub fn get(self, record: &[u8]) -> T {
        T::load(&record[self.at..self.at + T::LEN])
    }

    /// Writes it in a record, which is at least as long as records of its kind are.
    #[inline(always)]
    pub fn set(self, record: &mut [u8], value: &T) {
        value.store(&mut record[self.at..self.at + T::LEN]);
    }
}

/// The fields of records `R`: [`stored!`](crate::stored!) makes a function for each.
#[derive(Clone, Copy, Debug)]
pub struct Fields<R>(PhantomData<R>);

macro_rules! integers {
    ($($int:ident)*) => { $(
        impl Stored for $int {
            const LEN: usize = size_of::<Self>();

            #[inline(always)]
            fn load(bytes: &[u8]) -> Self {
                let mut raw = [0; size_of::<Self>()];
                raw.copy_from_slice(&bytes[..Self::LEN]);
                Self::from_le_bytes(raw)
            }

            #[inline(always)]
            fn store(&self, bytes: &mut [u8]) {
                bytes[..Self::LEN].copy_from_slice(&self.to_le_bytes());
            }
        }
    )* };
}

integers!(u8 u16 u32 u64);

impl Stored for bool {
    const LEN: usize = 1;

    #[inline(always)]
    fn load(bytes: &[u8]) -> Self {
        bytes[0] != 0
    }

    #[inline(always)]
    fn store(&self, bytes: &mut [u8]) {
        bytes[0] = u8::from(*self);
    }
}

impl<T: Stored + Copy + Default, const N: usize> Stored for [T; N] {
    const LEN: usize = N * T::LEN;

    #[inline]
    fn load(bytes: &[u8]) -> Self {
        std::array::from_fn(|at| T::load(&bytes[at * T::LEN..]))
    }

    #[inline]
    fn store(&self, bytes: &mut [u8]) {
        for (at, value) in self.iter().enumerate() {
            value.store(&mut bytes[at * T::LEN..]);
        }
    }
}

impl Stored for Ipv4Addr {
    const LEN: usize = 4;

    #[inline]
    fn load(bytes: &[u8]) -> Self {
        <[u8; 4]>::load(bytes).into()
    }

    #[inline]
    fn store(&self, bytes: &mut [u8]) {
        self.octets().store(bytes);
    }
}

impl Stored for Ipv6Addr {
    const LEN: usize = 16;

    #[inline]
    fn load(bytes: &[u8]) -> Self {
        <[u8; 16]>::load(bytes).into()
    }

    #[inline]
    fn store(&self, bytes: &mut [u8]) {
        self.octets().store(bytes);
    }
}

impl<T: Stored> Stored for Option<T> {
    const LEN: usize = 1 + T::LEN;

    #[inline]
    fn load(bytes: &[u8]) -> Self {
        (bytes[0] != 0).then(|| T::load(&bytes[1..]))
    }

    #[inline]
    fn store(&self, bytes: &mut [u8]) {
        bytes[0] = u8::from(self.is_some());
        match self {
            Some(value) => value.store(&mut bytes[1..]),
            None => bytes[1..Self::LEN].fill(0),
        }
    }
}

/// A few values, at most `N`.
#[derive(Clone, Copy, Debug)]
pub struct List<T, const N: usize> {
    len: u8,
    items: [T; N],
}

impl<T: Copy + Default, const N: usize> Default for List<T, N> {
    fn default() -> Self {
        Self {
            len: 0,
            items: [T::default(); N],
        }
    }
}

impl<T: Copy + PartialEq, const N: usize> PartialEq for List<T, N> {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl<T: Copy, const N: usize> List<T, N> {
    /// The values.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        &self.items[..usize::from(self.len).min(N)]
    }

    /// Appends a value; false, and nothing, if there is no room.
    pub fn push(&mut self, value: T) -> bool {
        let at = usize::from(self.len);
        let has_room = at < N && at < usize::from(u8::MAX);
        if has_room {
            self.items[at] = value;
            self.len += 1;
        }
        has_room
    }
}

impl<T: Stored + Copy + Default, const N: usize> Stored for List<T, N> {
    const LEN: usize = 1 + <[T; N]>::LEN;

    #[inline]
    fn load(bytes: &[u8]) -> Self {
        Self {
            len: bytes[0],
            items: <[T; N]>::load(&bytes[1..]),
        }
    }

    #[inline]
    fn store(&self, bytes: &mut [u8]) {
        bytes[0] = self.len;
        self.items.store(&mut bytes[1..]);
    }
}

/// Defines structs and their layout: the fields one after the other.
#[macro_export]
macro_rules! stored {
    (@fields $name:ident, $at:expr;) => {};
    (@fields $name:ident, $at:expr;
        $(#[$doc:meta])* $vis:vis $field:ident: $type:ty, $($rest:tt)*) => {
        $(#[$doc])*
        #[inline(always)]
        $vis const fn $field() -> $crate::stored::Field<$name, $type> {
            $crate::stored::Field::at($at)
        }
        $crate::stored!(@fields $name, $at + <$type as $crate::stored::Stored>::LEN; $($rest)*);
    };
    ($($(#[$doc:meta])* $vis:vis struct $name:ident {
        $($(#[$field_doc:meta])* $field_vis:vis $field:ident: $type:ty,)*
    })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        $vis struct $name {
            $($(#[$field_doc])* $field_vis $field: $type,)*
        }

        impl $crate::stored::Stored for $name {
            const LEN: usize = 0 $(+ <$type as $crate::stored::Stored>::LEN)*;

            #[inline]
            fn load(bytes: &[u8]) -> Self {
                let bytes = &bytes[..Self::LEN];
                let mut at = 0;
                $(
                    let $field = <$type as $crate::stored::Stored>::load(&bytes[at..]);
                    at += <$type as $crate::stored::Stored>::LEN;
                )*
                debug_assert_eq!(at, Self::LEN);
                Self { $($field),* }
            }

            #[inline]
            fn store(&self, bytes: &mut [u8]) {
                let bytes = &mut bytes[..Self::LEN];
                let mut at = 0;
                $(
                    $crate::stored::Stored::store(&self.$field, &mut bytes[at..]);
                    at += <$type as $crate::stored::Stored>::LEN;
                )*
                debug_assert_eq!(at, Self::LEN);
            }
        }

        #[allow(dead_code, reason = "which fields are read in place differs")]
        impl $crate::stored::Fields<$name> {
            $crate::stored!(@fields $name, 0;
                $($(#[$field_doc])* $field_vis $field: $type,)*);
        }
    )* };
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::stored! {
        /// One of each.
        struct All {
            /// An integer.
            number: u32,
            /// A list.
            list: List<u16, 3>,
            /// Something that may be there.
            v4: Option<Ipv4Addr>,
            /// An address.
            v6: Ipv6Addr,
            /// A flag.
            flag: bool,
        }
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let mut list = List::default();
        assert!(list.push(7) && list.push(8) && list.push(9) && !list.push(10));
        let all = All {
            number: 0x0102_0304,
            list,
            v4: Some(Ipv4Addr::new(10, 0, 0, 1)),
            v6: Ipv6Addr::LOCALHOST,
            flag: true,
        };
        let mut bytes = [0xee; All::LEN + 1];
        all.store(&mut bytes);
        assert_eq!(All::load(&bytes), all);
        assert_eq!(bytes[..4], [4, 3, 2, 1]);
        assert_eq!(bytes[All::LEN], 0xee, "it writes no more than its length");
    }

    #[test]
    fn a_field_is_read_and_written_where_its_record_has_it() {
        let mut bytes = [0; All::LEN];
        let mut all = All::load(&bytes);
        (all.number, all.v4, all.flag) = (7, Some(Ipv4Addr::LOCALHOST), true);
        Fields::<All>::number().set(&mut bytes, &all.number);
        Fields::<All>::v4().set(&mut bytes, &all.v4);
        Fields::<All>::flag().set(&mut bytes, &all.flag);
        assert_eq!(All::load(&bytes), all);
        assert_eq!(Fields::<All>::v4().get(&bytes), all.v4);
        assert_eq!(Fields::<All>::flag().offset() + 1, All::LEN);
        let two: Field<(), u16> = Field::<(), [u16; 2]>::at(3).then(Field::at(2));
        assert_eq!(two.offset(), 5);
    }

    #[test]
    fn any_bytes_are_some_value() {
        for byte in [0, 1, 7, 0xff] {
            let all = All::load(&[byte; All::LEN]);
            assert!(all.list.as_slice().len() <= 3);
        }
    }
}
