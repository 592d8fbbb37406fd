//! Why a request went wrong: its names on the wire, and the code of each.

/// The names of failures on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    AlreadyExists,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    InsufficientStorage,
    InternalError,
    Invalid,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    RequestEntityTooLarge,
    ServiceUnavailable,
    Timeout,
    TooManyRequests,
    Unauthorized,
    UnsupportedMediaType,
}

impl Reason {
    pub fn wire(self) -> &'static str {
        match self {
            Reason::AlreadyExists => "AlreadyExists",
            Reason::BadRequest => "BadRequest",
            Reason::Conflict => "Conflict",
            Reason::Expired => "Expired",
            Reason::Forbidden => "Forbidden",
            Reason::InsufficientStorage => "InsufficientStorage",
            Reason::InternalError => "InternalError",
            Reason::Invalid => "Invalid",
            Reason::MethodNotAllowed => "MethodNotAllowed",
            Reason::NotAcceptable => "NotAcceptable",
            Reason::NotFound => "NotFound",
            Reason::RequestEntityTooLarge => "RequestEntityTooLarge",
            Reason::ServiceUnavailable => "ServiceUnavailable",
            Reason::Timeout => "Timeout",
            Reason::TooManyRequests => "TooManyRequests",
            Reason::Unauthorized => "Unauthorized",
            Reason::UnsupportedMediaType => "UnsupportedMediaType",
        }
    }

    pub fn code(self) -> u16 {
        match self {
            Reason::BadRequest => 400,
            Reason::Unauthorized => 401,
            Reason::Forbidden => 403,
            Reason::NotFound => 404,
            Reason::MethodNotAllowed => 405,
            Reason::NotAcceptable => 406,
            Reason::AlreadyExists | Reason::Conflict => 409,
            Reason::Expired => 410,
            Reason::RequestEntityTooLarge => 413,
            Reason::UnsupportedMediaType => 415,
            Reason::Invalid => 422,
            Reason::TooManyRequests => 429,
            Reason::InternalError => 500,
            Reason::ServiceUnavailable => 503,
            Reason::Timeout => 504,
            Reason::InsufficientStorage => 507,
        }
    }
}
