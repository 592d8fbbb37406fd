//! The loop and its hands: wake, look, plan, act; and the tasks that run beside it as long as the agent does.

pub mod act;
pub mod giving;
pub mod lanes;
pub mod last_lines;
pub mod leaving;
pub mod probe;
pub mod sync;
