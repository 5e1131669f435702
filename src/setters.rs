//! The methods of options that set one value.

/// Methods that set the field of their name, and return the options.
macro_rules! setters {
    ($($(#[$doc:meta])* $option:ident: $value:ty;)+) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $option(mut self, $option: $value) -> Self {
            self.$option = $option.into();
            self
        }
    )+};
}

pub(crate) use setters;
