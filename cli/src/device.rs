//! The device that a model is loaded to, or runs on.

use weighbridge::Model;
use weighbridge_reference::{Plan, Reference};

use crate::Stop;
use crate::args::DeviceName;
use crate::args::run::Runner;
use crate::failure::note;

/// A GPU that the user named.
#[cfg(feature = "gpu")]
pub(crate) fn gpu(which: Option<&str>) -> Result<weighbridge_gpu::Gpu, Stop> {
    Ok(weighbridge_gpu::Gpu::open(which)?)
}

/// The error for a GPU that the user named.
#[cfg(not(feature = "gpu"))]
pub(crate) fn without_gpus(which: Option<&str>) -> Stop {
    let name = which.map_or("gpu".to_owned(), |which| format!("gpu:{which}"));
    let fault = format!("device {name}: this program was built without GPUs");
    let error = weighbridge::Error::new(weighbridge::ErrorKind::Unsupported, fault);
    error.advise("build it with `--features gpu`").into()
}

/// A note on logits that are computed with another matrix than the config says.
pub(crate) fn note_missing_head(model: &Model) {
    if let Some(missing) = weighbridge::ops::missing_head(model) {
        note(&missing);
    }
}

/// A model that is ready to run.
pub(crate) fn reference(runner: &Runner, model: &Model) -> Result<Reference, Stop> {
    let plan = match &runner.assume {
        Some(family) => {
            let plan = Plan::assuming(model, family)?;
            note(&format!(
                "run as {family}: nothing says that the model computes what {family} does"
            ));
            plan
        }
        None => Plan::of(model)?,
    };
    match &runner.device {
        DeviceName::Cpu => Ok(Reference::with_plan(model, plan)?),
        #[cfg(feature = "gpu")]
        DeviceName::Gpu(which) => {
            Ok(Reference::on_gpu(model, plan, gpu(which.as_deref())?.into())?)
        }
        #[cfg(not(feature = "gpu"))]
        DeviceName::Gpu(which) => Err(without_gpus(which.as_deref())),
    }
}
