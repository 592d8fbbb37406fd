//! Sums of quantities, as quotas count them.

use super::{Format, NANO, Quantity, read, rewritten, round_up};
use std::fmt;

/// Amounts counted together. Written as Kubernetes writes a sum: in the form of the first that was more than nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    nanos: i128,
    format: Option<Format>,
}

impl Sum {
    /// A number of things.
    pub fn of_count(count: i64) -> Sum {
        Sum { nanos: i128::from(count) * NANO, format: Some(Format::DecimalSi) }
    }

    /// None: the text is no amount.
    pub fn of_text(text: &str) -> Option<Sum> {
        let written = read(text.trim()).ok()?;
        Some(Sum { nanos: written.nanos(), format: Some(written.format) })
    }

    pub fn plus(self, other: Sum) -> Sum {
        let format = if self.nanos == 0 { other.format.or(self.format) } else { self.format };
        Sum { nanos: self.nanos.saturating_add(other.nanos), format }
    }

    pub fn minus(self, other: Sum) -> Sum {
        let format = if self.nanos == 0 { other.format.or(self.format) } else { self.format };
        Sum { nanos: self.nanos.saturating_sub(other.nanos), format }
    }

    /// The larger one.
    pub fn or_more(self, other: Sum) -> Sum {
        if other.nanos > self.nanos { other } else { self }
    }

    pub fn amount(self) -> Quantity {
        Quantity { nanos: self.nanos }
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = self.format.unwrap_or(Format::DecimalSi);
        let milli = round_up(self.nanos, NANO / 1000);
        f.write_str(&rewritten(milli.saturating_mul(NANO / 1000), format))
    }
}
