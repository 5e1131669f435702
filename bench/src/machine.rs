//! The machine that runs the benchmarks: its page cache, its memory, and the load by other programs.
//! Linux only.

use std::fs::File;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

const HUGE: usize = 2 << 20;

/// Untouched memory in huge pages.
pub struct Fresh {
    map: memmap2::MmapMut,
    start: usize,
}

impl Fresh {
    /// Allocates at least `len` bytes, filling the last huge page.
    pub fn of(len: usize) -> Self {
        // A map starts at any page; the first huge page may come later.
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

/// Allocates `len` bytes, writes to them and frees them, then resets this process's peak memory.
/// The next allocation most likely gets these pages again, and they are present: the host of a
/// virtual machine takes back pages that are free for some seconds.
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

/// The peak of this process's resident memory, in bytes.
pub fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("its own status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    let kilobytes = line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number");
    kilobytes * 1024
}

/// Reads a file into the page cache.
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

/// Drops a file from the page cache, and checks that it is gone.
pub fn drop_from_cache(path: &Path) {
    let file = File::open(path).expect("the input was made");
    file.sync_all().expect("the input can be synced");
    for _ in 0..10 {
        // SAFETY: a system call on an open descriptor.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        if resident(&file) == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{} stays in the page cache", path.display());
}

/// The number of a file's pages in the page cache.
fn resident(file: &File) -> usize {
    // SAFETY: the file belongs to this program, and nobody changes it.
    let map = unsafe { memmap2::Mmap::map(file) }.expect("the input can be mapped");
    let mut pages = vec![0u8; map.len().div_ceil(4096)];
    let start = map.as_ptr().cast_mut().cast();
    // SAFETY: one byte for each page of a map.
    let done = unsafe { libc::mincore(start, map.len(), pages.as_mut_ptr()) };
    assert_eq!(done, 0, "mincore");
    pages.iter().filter(|&&page| page & 1 != 0).count()
}

/// Processor time, of the machine and of this process's finished children.
pub struct Work {
    machine: Duration,
    children: Duration,
}

impl Work {
    /// The times until now, to a hundredth of a second.
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
        // second, in brackets, may contain blanks.
        let own = std::fs::read_to_string("/proc/self/stat").expect("its own times");
        let fields: Vec<_> = own.rsplit(')').next().expect("fields").split_whitespace().collect();
        Self { machine, children: ticks(&fields, &[13, 14]) }
    }

    /// The time that other programs have used since.
    pub fn foreign(&self) -> Duration {
        let now = Self::now();
        (now.machine - self.machine).saturating_sub(now.children - self.children)
    }
}

/// Waits until almost nothing else runs, but no longer than `most`.
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
