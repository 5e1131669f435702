//! Ranges that will be read: joined where they are near to each other, and fetched several at a time.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::error::Result;
use crate::threads::Threads;

/// The most bytes of one request. Longer ranges are divided.
pub(super) const REQUEST: u64 = 8 << 20;

/// The most bytes of one request that nobody wants, because they lie between ranges.
const GAPS: u64 = 64 << 10;

/// The requests that are made at the same time.
pub(super) const TOGETHER: usize = 4;

/// The requests that were planned. Those that were answered hold the bytes until they are read.
#[derive(Debug, Default)]
pub(super) struct Ahead(Mutex<VecDeque<Request>>);

#[derive(Debug)]
struct Request {
    range: Range<u64>,
    /// The number of its bytes that are still to be read.
    wanted: u64,
    bytes: Option<Vec<u8>>,
}

impl Ahead {
    /// Plans the requests for ranges that will be read. What was planned before is forgotten.
    pub(super) fn plan(&self, ranges: &[Range<u64>]) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = joined(ranges);
    }

    /// Reads a range that planned requests cover. Those requests, and some of those after them, are
    /// made if they were not. Returns `false` if a part of the range was not planned.
    pub(super) fn read(
        &self,
        offset: u64,
        out: &mut [u8],
        fetch: impl Fn(&Range<u64>) -> Result<Vec<u8>> + Sync,
    ) -> Result<bool> {
        let end = offset.saturating_add(out.len() as u64);
        let mut planned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(first) = planned.iter().position(|request| request.range.contains(&offset)) else {
            return Ok(false);
        };
        let (mut covered, mut count) = (offset, 0);
        for request in planned.iter().skip(first).take_while(|request| request.range.start < end) {
            if request.range.start > covered {
                return Ok(false);
            }
            (covered, count) = (request.range.end, count + 1);
        }
        if covered < end {
            return Ok(false);
        }
        let is_missing = |request: &Request| request.bytes.is_none();
        if planned.iter().skip(first).take(count).any(is_missing) {
            let some = planned.iter_mut().skip(first).take(count.max(TOGETHER));
            let mut next: Vec<&mut Request> = some.filter(|request| is_missing(request)).collect();
            let answers = Threads::new(TOGETHER).in_order(
                next.iter(),
                || (),
                |(), request| fetch(&request.range),
            )?;
            for (request, bytes) in next.iter_mut().zip(answers) {
                request.bytes = Some(bytes);
            }
        }
        for request in planned.iter_mut().skip(first).take(count) {
            let part = request.range.start.max(offset)..request.range.end.min(end);
            let within = |start: u64| {
                let place = |at: u64| usize::try_from(at.saturating_sub(start)).ok();
                Some(place(part.start)?..place(part.end)?)
            };
            let from = request.bytes.as_deref().zip(within(request.range.start));
            let from = from.and_then(|(bytes, range)| bytes.get(range));
            let to = within(offset).and_then(|range| out.get_mut(range));
            let Some((from, to)) = from.zip(to) else { return Ok(false) };
            to.copy_from_slice(from);
            request.wanted = request.wanted.saturating_sub(part.end - part.start);
        }
        planned.retain(|request| request.wanted > 0);
        Ok(true)
    }
}

/// The requests for some ranges, in the order of the file.
fn joined(ranges: &[Range<u64>]) -> VecDeque<Request> {
    let mut sorted: Vec<Range<u64>> =
        ranges.iter().filter(|range| range.start < range.end).cloned().collect();
    sorted.sort_by_key(|range| (range.start, range.end));
    let mut requests: VecDeque<Request> = VecDeque::new();
    for range in sorted {
        let len = range.end - range.start;
        let last = requests.back_mut().filter(|last| {
            let joined = range.end.max(last.range.end) - last.range.start;
            // Ranges may overlap, and then nothing lies between them.
            let unwanted = joined.saturating_sub(last.wanted.saturating_add(len));
            joined <= REQUEST && unwanted <= GAPS
        });
        if let Some(last) = last {
            last.range.end = last.range.end.max(range.end);
            last.wanted = last.wanted.saturating_add(len);
            continue;
        }
        let mut at = range.start;
        while at < range.end {
            let end = at.saturating_add(REQUEST).min(range.end);
            requests.push_back(Request { range: at..end, wanted: end - at, bytes: None });
            at = end;
        }
    }
    requests
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "the bytes are the last of their offsets")]
#[expect(clippy::single_range_in_vec_init, reason = "lists of ranges, also of one")]
mod tests {
    use super::*;

    #[test]
    fn near_ranges_are_joined() {
        let of = |ranges: &[Range<u64>]| -> Vec<Range<u64>> {
            joined(ranges).into_iter().map(|request| request.range).collect()
        };
        let k = 1 << 10;
        assert_eq!(of(&[100..200, 0..50, 300..300]), [0..200]);
        assert_eq!(of(&[0..k, 65 * k..66 * k]), [0..66 * k]);
        assert_eq!(of(&[0..k, 65 * k + 1..66 * k]), [0..k, 65 * k + 1..66 * k]);
        // All gaps of a request count together.
        assert_eq!(of(&[0..k, 40 * k..41 * k, 80 * k..81 * k]), [0..41 * k, 80 * k..81 * k]);
        assert_eq!(of(&[0..REQUEST + 1]), [0..REQUEST, REQUEST..REQUEST + 1]);
        assert_eq!(of(&[0..REQUEST, REQUEST..REQUEST + 5]), [0..REQUEST, REQUEST..REQUEST + 5]);
        assert_eq!(of(&[0..9, 3..9, 3..12]), [0..12]);
    }

    #[test]
    fn what_lies_between_requests_was_not_planned() {
        let ahead = Ahead::default();
        ahead.plan(&[0..10, 100_000..100_010]);
        let never = |range: &Range<u64>| panic!("{range:?} is fetched");
        for range in [5..100_005, 5..11, 10..20, 99_999..100_010] {
            let mut out = vec![7; (range.end - range.start) as usize];
            assert!(!ahead.read(range.start, &mut out, never).expect("no fault"), "{range:?}");
        }
        let fetch = |range: &Range<u64>| Ok((range.start..range.end).map(|at| at as u8).collect());
        let mut out = [0; 5];
        assert!(ahead.read(5, &mut out, fetch).expect("bytes"));
        assert_eq!(out, [5, 6, 7, 8, 9]);
    }

    #[test]
    fn what_was_planned_is_read_once_and_forgotten() {
        let ahead = Ahead::default();
        ahead.plan(&[0..10, 20..30]);
        let asked = Mutex::new(Vec::new());
        let fetch = |range: &Range<u64>| {
            asked.lock().expect("a list").push(range.clone());
            Ok((range.start..range.end).map(|at| at as u8).collect())
        };
        let mut out = [0; 10];
        assert!(ahead.read(20, &mut out, fetch).expect("bytes"));
        assert_eq!(out[..2], [20, 21]);
        assert!(ahead.read(0, &mut out, fetch).expect("bytes"));
        assert_eq!(*asked.lock().expect("a list"), [0..30]);
        assert!(!ahead.read(0, &mut out, fetch).expect("nothing planned"));

        // A read may need several requests.
        ahead.plan(&[0..REQUEST + 100]);
        let mut long = vec![1; 50];
        assert!(ahead.read(REQUEST - 20, &mut long, fetch).expect("bytes"));
        assert_eq!(long, (REQUEST - 20..REQUEST + 30).map(|at| at as u8).collect::<Vec<_>>());
        assert!(ahead.read(REQUEST + 30, &mut long, fetch).expect("bytes"));
        assert!(!ahead.read(REQUEST + 90, &mut long, fetch).expect("beyond the plan"));
        assert_eq!(asked.lock().expect("a list").len(), 3);
    }
}
