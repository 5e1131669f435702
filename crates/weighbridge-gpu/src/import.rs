//! Host memory as a buffer of the GPU, by Vulkan's `VK_EXT_external_memory_host`. One of the few files that may
//! contain unsafe code.
#![allow(unsafe_code, reason = "wgpu has no safe way to import memory")]

use std::ffi::c_void;
use std::sync::Arc;

use ash::ext::external_memory_host as extension;
use ash::vk;
use memmap2::{MmapOptions, MmapRaw};
use wgpu::hal::api::Vulkan;
use wgpu::hal::vulkan::Buffer;

use weighbridge::device::HostMemory;

/// Opens a device with the extension, if the adapter has it: the device, its queue, and the alignment of
/// memory that it imports.
pub(super) fn open(
    adapter: &wgpu::Adapter,
    description: &wgpu::DeviceDescriptor<'_>,
) -> Option<(wgpu::Device, wgpu::Queue, u64)> {
    // SAFETY: the adapter is only asked, and opened once below.
    let vulkan = unsafe { adapter.as_hal::<Vulkan>() }?;
    if !vulkan.physical_device_capabilities().supports_extension(extension::NAME) {
        return None;
    }
    let mut host = vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut host);
    let instance = vulkan.shared_instance().raw_instance();
    // SAFETY: the adapter is of this instance, which is of Vulkan 1.1 or has the call as an extension:
    // wgpu itself calls it for every adapter. The structure is one that the extension adds.
    unsafe {
        instance.get_physical_device_properties2(vulkan.raw_physical_device(), &mut properties);
    }
    let alignment = host.min_imported_host_pointer_alignment;
    // SAFETY: the callback adds an extension that the adapter has, and nothing else.
    let opened = unsafe {
        vulkan.open_with_callback(
            description.required_features,
            &description.required_limits,
            &description.memory_hints,
            Some(Box::new(|given| given.extensions.push(extension::NAME))),
        )
    };
    // SAFETY: the device was opened from this adapter, with what the description requires.
    let created = unsafe { adapter.create_device_from_hal::<Vulkan>(opened.ok()?, description) };
    let (device, queue) = created.ok()?;
    alignment.is_power_of_two().then_some((device, queue, alignment))
}

/// Host memory of this program that the GPU copies from: nothing of the driver is between.
#[derive(Debug)]
pub(super) struct Stage {
    map: Arc<MmapRaw>,
    buffer: wgpu::Buffer,
}

impl Stage {
    /// Memory of at least this many bytes, or `None` if the driver refuses it.
    pub(super) fn new(device: &wgpu::Device, len: usize, alignment: u64) -> Option<Self> {
        let alignment = usize::try_from(alignment).ok()?.max(4);
        let map = MmapOptions::new().len(len.checked_next_multiple_of(alignment)?).map_anon();
        let map = Arc::new(MmapRaw::from(map.ok()?));
        // Pages are aligned to their size, and a driver may ask for more.
        if !map.as_ptr().addr().is_multiple_of(alignment) {
            return None;
        }
        let owner = Arc::clone(&map);
        let buffer = import(device, map.as_ptr(), map.len() as u64, move || drop(owner))?;
        Some(Self { map, buffer })
    }

    /// The memory as a buffer.
    pub(super) fn buffer(&self) -> &wgpu::Buffer {
        &self.buffer
    }

    /// The memory. Nothing must be copied from it while it is written to.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the map exists as long as this value, no other reference to its bytes is ever made, and the
        // GPU only reads.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr(), self.map.len()) }
    }
}

/// A buffer that is this memory, or `None` if the driver refuses it.
pub(super) fn buffer(device: &wgpu::Device, memory: HostMemory) -> Option<wgpu::Buffer> {
    let bytes = memory.bytes();
    let (pointer, size) = (bytes.as_ptr(), bytes.len() as u64);
    import(device, pointer, size, move || drop(memory))
}

/// A buffer of host memory, which stays until `give_up` is called: when the GPU is done with it.
fn import(
    device: &wgpu::Device,
    pointer: *const u8,
    size: u64,
    give_up: impl FnOnce() + Send + Sync + 'static,
) -> Option<wgpu::Buffer> {
    let pointer = pointer.cast::<c_void>().cast_mut();
    let kind = vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;
    // SAFETY: the device is only used for calls that Vulkan allows from any thread.
    let vulkan = unsafe { device.as_hal::<Vulkan>() }?;
    let raw = vulkan.raw_device();
    if !vulkan.enabled_device_extensions().contains(&extension::NAME) {
        return None;
    }
    let calls = extension::Device::new(vulkan.shared_instance().raw_instance(), raw);
    let mut allowed = vk::MemoryHostPointerPropertiesEXT::default();
    // SAFETY: the extension is enabled, so that the call exists; the pointer is that of readable memory.
    let asked = unsafe {
        (calls.fp().get_memory_host_pointer_properties_ext)(
            raw.handle(),
            kind,
            pointer,
            &mut allowed,
        )
    };
    if asked != vk::Result::SUCCESS {
        return None;
    }
    let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(kind);
    let usage = vk::BufferUsageFlags::STORAGE_BUFFER | vk::BufferUsageFlags::TRANSFER_SRC;
    let wanted = vk::BufferCreateInfo::default().size(size).usage(usage).push_next(&mut external);
    // SAFETY: a new buffer without memory; it is destroyed below, or when wgpu drops it.
    let made = unsafe { raw.create_buffer(&wanted, None) }.ok()?;
    // SAFETY: the buffer was just made by this device.
    let needs = unsafe { raw.get_buffer_memory_requirements(made) };
    let types = needs.memory_type_bits & allowed.memory_type_bits;
    let mut import =
        vk::ImportMemoryHostPointerInfoEXT::default().handle_type(kind).host_pointer(pointer);
    let allocation = vk::MemoryAllocateInfo::default()
        .allocation_size(size)
        .memory_type_index(types.trailing_zeros())
        .push_next(&mut import);
    // SAFETY: the memory type is one that both the buffer and the pointer allow. The caller has aligned
    // the memory, and it stays until `give_up` is called.
    let imported = (types != 0 && needs.size <= size)
        .then(|| unsafe { raw.allocate_memory(&allocation, None) }.ok())
        .flatten();
    // SAFETY: both are of this device, and neither is bound to anything else.
    let bound =
        imported.filter(|memory| unsafe { raw.bind_buffer_memory(made, *memory, 0) }.is_ok());
    let Some(bound) = bound else {
        // SAFETY: nothing uses them.
        unsafe {
            raw.destroy_buffer(made, None);
            imported.into_iter().for_each(|memory| raw.free_memory(memory, None));
        }
        return None;
    };
    let own = raw.clone();
    let release = move || {
        // SAFETY: wgpu calls this once, when the GPU is done with the buffer.
        unsafe {
            own.destroy_buffer(made, None);
            own.free_memory(bound, None);
        }
        give_up();
    };
    // SAFETY: the buffer is valid until `release` is called.
    let whole = unsafe { Buffer::from_raw_externally_owned(made, Box::new(release)) };
    let description = wgpu::BufferDescriptor {
        label: None,
        size,
        usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC,
        mapped_at_creation: false,
    };
    // SAFETY: the buffer has this size and these usages, and its memory is initialized.
    Some(unsafe { device.create_buffer_from_hal::<Vulkan>(whole, &description) })
}
