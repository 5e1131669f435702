//! The members of an object.

use std::fmt;

use crate::index::{NameIndex, hash};

/// The members of a JSON object, in order.
///
/// Two maps are equal if they have the same members, in any order.
#[derive(Clone)]
pub struct Map<K, V> {
    members: Vec<(K, V)>,
    /// The positions of the members by name, in a map that is large enough to be worth it.
    index: Option<Box<NameIndex>>,
}

/// Up to this many members are compared one by one.
const FEW: usize = 16;

impl<K, V> Map<K, V> {
    /// An empty map.
    pub const fn new() -> Self {
        Self { members: Vec::new(), index: None }
    }

    /// The number of members.
    pub const fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are no members.
    pub const fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

impl<V> Map<String, V> {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&V> {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// The key as the map holds it, and its value.
    pub fn get_key_value(&self, key: &str) -> Option<(&String, &V)> {
        self.members.get(self.position(key)?).map(|(key, value)| (key, value))
    }

    /// The value of a key, for changing it.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut V> {
        let position = self.position(key)?;
        self.members.get_mut(position).map(|(_, value)| value)
    }

    /// Whether the map has a key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.position(key).is_some()
    }

    /// Adds a member at the end, or replaces the value of its key. Returns the replaced value.
    pub fn insert(&mut self, key: impl Into<String>, value: V) -> Option<V> {
        let key = key.into();
        if let Some(present) = self.get_mut(&key) {
            return Some(std::mem::replace(present, value));
        }
        self.push(key, value);
        None
    }

    /// The place of a key, present or not.
    pub fn entry(&mut self, key: impl Into<String>) -> Entry<'_, V> {
        Entry { map: self, key: key.into() }
    }

    /// Removes a member, and returns its value. The last member takes its place.
    pub fn remove(&mut self, key: &str) -> Option<V> {
        let position = self.position(key)?;
        let last = self.members.len().checked_sub(1)?;
        if let Some(index) = &mut self.index {
            let members = &self.members;
            let name = |number: u32| name(members, number);
            index.remove(key.as_bytes(), name);
            if let Some((moved, _)) = members.get(last).filter(|_| position != last) {
                index.replace(moved.as_bytes(), number(position), name);
            }
        }
        Some(self.members.swap_remove(position).1)
    }

    /// Removes the members that `keeps` is false for. The others keep their order.
    pub fn retain(&mut self, mut keeps: impl FnMut(&String, &mut V) -> bool) {
        self.members.retain_mut(|(key, value)| keeps(key, value));
        self.index = None;
        self.build_index();
    }

    /// The members, in order.
    pub fn iter(&self) -> Iter<'_, V> {
        self.into_iter()
    }

    /// The members, in order, for changing their values.
    pub fn iter_mut(&mut self) -> IterMut<'_, V> {
        self.into_iter()
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &String> + ExactSizeIterator {
        self.members.iter().map(|(key, _)| key)
    }

    /// The values, in order.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> + ExactSizeIterator {
        self.members.iter().map(|(_, value)| value)
    }

    /// The values, in order, for changing them.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> + ExactSizeIterator {
        self.members.iter_mut().map(|(_, value)| value)
    }

    fn position(&self, key: &str) -> Option<usize> {
        match &self.index {
            None => self.members.iter().position(|(other, _)| other == key),
            Some(index) => index
                .find(key.as_bytes(), |number| name(&self.members, number))
                .and_then(|number| usize::try_from(number).ok()),
        }
    }

    /// Adds a member whose key the map does not have.
    fn push(&mut self, key: String, value: V) {
        self.members.push((key, value));
        match &mut self.index {
            Some(index) => add(index, &self.members, self.members.len() - 1),
            None => self.build_index(),
        }
    }

    fn build_index(&mut self) {
        if self.members.len() > FEW {
            let mut index = Box::<NameIndex>::default();
            (0..self.members.len()).for_each(|position| add(&mut index, &self.members, position));
            self.index = Some(index);
        }
    }
}

/// The name of a member by its number in the index.
fn name<V>(members: &[(String, V)], number: u32) -> &[u8] {
    let member = usize::try_from(number).ok().and_then(|position| members.get(position));
    member.map_or(&[], |(key, _)| key.as_bytes())
}

/// The number in the index for a position. A document with more members exceeds every limit.
fn number(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

fn add<V>(index: &mut NameIndex, members: &[(String, V)], position: usize) {
    let number = number(position);
    let hash_of = |number| hash(name(members, number));
    index.insert(hash_of(number), number, |_| false, hash_of);
}

/// The place of a key in a [`Map`].
#[derive(Debug)]
pub struct Entry<'m, V> {
    map: &'m mut Map<String, V>,
    key: String,
}

impl<'m, V> Entry<'m, V> {
    /// The value of the key, which is added if it is missing.
    pub fn or_insert(self, value: V) -> &'m mut V {
        self.or_insert_with(|| value)
    }

    /// The value of the key, which is computed and added if it is missing.
    pub fn or_insert_with(self, value: impl FnOnce() -> V) -> &'m mut V {
        let position = self.map.position(&self.key).unwrap_or_else(|| {
            self.map.push(self.key, value());
            self.map.members.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "the position of a member")]
        &mut self.map.members[position].1
    }
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V: fmt::Debug> fmt::Debug for Map<String, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl<V: PartialEq> PartialEq for Map<String, V> {
    fn eq(&self, other: &Self) -> bool {
        let same = |(key, value): (&String, &V)| other.get(key) == Some(value);
        self.len() == other.len() && self.iter().all(same)
    }
}

impl<K: Into<String>, V> Extend<(K, V)> for Map<String, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, members: I) {
        members.into_iter().for_each(|(key, value)| drop(self.insert(key, value)));
    }
}

impl<K: Into<String>, V> FromIterator<(K, V)> for Map<String, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(members: I) -> Self {
        let mut map = Self::new();
        map.extend(members);
        map
    }
}

impl<K: Into<String>, V, const N: usize> From<[(K, V); N]> for Map<String, V> {
    fn from(members: [(K, V); N]) -> Self {
        members.into_iter().collect()
    }
}

impl<V> IntoIterator for Map<String, V> {
    type Item = (String, V);
    type IntoIter = std::vec::IntoIter<(String, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.members.into_iter()
    }
}

/// The members of a [`Map`].
pub type Iter<'m, V> =
    std::iter::Map<std::slice::Iter<'m, (String, V)>, fn(&'m (String, V)) -> (&'m String, &'m V)>;

/// The members of a [`Map`], for changing their values.
pub type IterMut<'m, V> = std::iter::Map<
    std::slice::IterMut<'m, (String, V)>,
    fn(&'m mut (String, V)) -> (&'m String, &'m mut V),
>;

impl<'m, V> IntoIterator for &'m Map<String, V> {
    type Item = (&'m String, &'m V);
    type IntoIter = Iter<'m, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.members.iter().map(|(key, value)| (key, value))
    }
}

impl<'m, V> IntoIterator for &'m mut Map<String, V> {
    type Item = (&'m String, &'m mut V);
    type IntoIter = IterMut<'m, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.members.iter_mut().map(|(key, value)| (&*key, value))
    }
}
