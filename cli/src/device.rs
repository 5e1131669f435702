//! The device that a model is loaded to, or runs on.

use weighbridge::Model;
use weighbridge_reference::Reference;

use crate::Stop;
use crate::args::DeviceName;

/// A GPU that the user named.
#[cfg(feature = "gpu")]
pub(crate) fn gpu(which: Option<&str>) -> Result<weighbridge::device::gpu::Gpu, Stop> {
    Ok(weighbridge::device::gpu::Gpu::open(which)?)
}

/// The error for a GPU that the user named.
#[cfg(not(feature = "gpu"))]
pub(crate) fn without_gpus(which: Option<&str>) -> Stop {
    let name = which.map_or("gpu".to_owned(), |which| format!("gpu:{which}"));
    let fault = format!("device {name}: this program was built without GPUs");
    let error = weighbridge::Error::new(weighbridge::ErrorKind::Unsupported, fault);
    error.advise("build it with `--features gpu`").into()
}

/// A model that is ready to run on a device.
pub(crate) fn reference(device: &DeviceName, model: &Model) -> Result<Reference, Stop> {
    match device {
        DeviceName::Cpu => Ok(Reference::new(model)?),
        #[cfg(feature = "gpu")]
        DeviceName::Gpu(which) => {
            let plan = weighbridge_reference::Plan::of(model)?;
            Ok(Reference::on_gpu(model, plan, gpu(which.as_deref())?.into())?)
        }
        #[cfg(not(feature = "gpu"))]
        DeviceName::Gpu(which) => Err(without_gpus(which.as_deref())),
    }
}
