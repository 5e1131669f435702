//! The machine that is measured on: its page cache, its memory, and what else it is doing. Linux.

use std::fs::File;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

const HUGE: usize = 2 << 20;

/// Memory that nobody has touched yet, in huge pages.
pub struct Fresh {
    map: memmap2::MmapMut,
    start: usize,
}

impl Fresh {
    /// At least `len` bytes, and as many as fill the last huge page.
    pub fn of(len: usize) -> Self {
        // A map begins at some page; the first that is huge may come later.
        let size = len.next_multiple_of(HUGE) + HUGE;
        let map = memmap2::MmapMut::map_anon(size).expect("there is memory");
        map.advise(memmap2::Advice::HugePage).expect("huge pages are enabled");
        let start = map.as_ptr().align_offset(HUGE);
        Self { map, start }
    }
}

impl Deref for Fresh {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map[self.start..]
    }
}

impl DerefMut for Fresh {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.map[self.start..]
    }
}

/// Takes `len` bytes from the system, writes to them and gives them back, and then forgets what
/// this process held at most. What it takes next is these pages again, most likely, and they are
/// there: a virtual machine's host takes back those that are free for some seconds.
pub fn take_and_return(len: usize) {
    let mut fresh = Fresh::of(len);
    let half = fresh.len() / 2;
    let (a, b) = fresh.split_at_mut(half);
    std::thread::scope(|scope| {
        scope.spawn(|| a.fill(1));
        b.fill(1);
    });
    drop(fresh);
    // proc_pid_clear_refs(5): "5 resets the peak resident set size to the current value".
    std::fs::write("/proc/self/clear_refs", "5").expect("the peak can be reset");
}

/// The most bytes that this process has had resident.
pub fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("its own status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    let kilobytes = line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number");
    kilobytes * 1024
}

/// Puts a file into the page cache.
pub fn read_through(path: &Path) {
    let file = File::open(path).expect("the input was made");
    let mut buffer = vec![0; 1 << 20];
    let mut offset = 0;
    loop {
        let read = file.read_at(&mut buffer, offset).expect("reads");
        if read == 0 {
            break;
        }
        offset += read as u64;
    }
}

/// Drops a file from the page cache, and makes sure that it is not there.
pub fn drop_from_cache(path: &Path) {
    let file = File::open(path).expect("the input was made");
    file.sync_all().expect("the input can be synced");
    for _ in 0..10 {
        // SAFETY: a call about a descriptor that is open.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        if resident(&file) == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{} stays in the page cache", path.display());
}

/// Method many pages of a file the page cache holds.
fn resident(file: &File) -> usize {
    // SAFETY: the file is this program's own, and nobody changes it.
    let map = unsafe { memmap2::Mmap::map(file) }.expect("the input can be mapped");
    let mut pages = vec![0u8; map.len().div_ceil(4096)];
    let start = map.as_ptr().cast_mut().cast();
    // SAFETY: one byte for each page of a map.
    let done = unsafe { libc::mincore(start, map.len(), pages.as_mut_ptr()) };
    assert_eq!(done, 0, "mincore");
    pages.iter().filter(|&&page| page & 1 != 0).count()
}

/// Time that processors have spent, in the machine and in this process's finished children.
pub struct Work {
    machine: Duration,
    children: Duration,
}

impl Work {
    /// Up to now, to a hundredth of a second.
    pub fn now() -> Self {
        let ticks = |fields: &[&str], wanted: &[usize]| {
            let sum = wanted.iter().map(|&n| fields[n].parse::<u64>().expect("ticks")).sum::<u64>();
            Duration::from_millis(10 * sum)
        };
        // proc_stat(5): user, nice, system, then idle and iowait, then irq and softirq.
        let all = std::fs::read_to_string("/proc/stat").expect("the machine's times");
        let fields: Vec<_> = all.lines().next().expect("a line").split_whitespace().collect();
        let machine = ticks(&fields, &[1, 2, 3, 6, 7]);
        // proc_pid_stat(5): fields 16 and 17, counted from 1, are those of awaited children; the
        // second, in brackets, may hold blanks.
        let own = std::fs::read_to_string("/proc/self/stat").expect("its own times");
        let fields: Vec<_> = own.rsplit(')').next().expect("fields").split_whitespace().collect();
        Self { machine, children: ticks(&fields, &[13, 14]) }
    }

    /// What others have spent since.
    pub fn foreign(&self) -> Duration {
        let now = Self::now();
        (now.machine - self.machine).saturating_sub(now.children - self.children)
    }
}

/// Waits until next to nothing else runs, but no longer than `most`.
pub fn wait_until_quiet(most: Duration) {
    let start = Instant::now();
    while start.elapsed() < most {
        let before = Work::now();
        std::thread::sleep(Duration::from_millis(200));
        if before.foreign() <= Duration::from_millis(20) {
            break;
        }
    }
}
