//! Whether a client certificate still counts while its connection is open. The handshake has verified it with the keys
//! of its moment; the authorities of the port may change later, and the certificate may end.
use super::TlsKeys;
use super::clients::{ClientAuthorities, Signer};
use super::keys::Current;
use rustls::pki_types::CertificateDer;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A verified chain, which is verified again after each change of the port's keys. The default stands for nobody.
#[derive(Clone, Default)]
pub struct Standing(Option<Arc<Chain>>);

struct Chain {
    keys: Arc<TlsKeys>,
    certificates: Vec<CertificateDer<'static>>,
    signer: Signer,
    last: Mutex<Verified>,
}

/// The last verification.
struct Verified {
    by: Option<Arc<ClientAuthorities>>,
    counts: bool,
}

impl Standing {
    /// Of a chain that `current` has taken in the handshake. `None`: it does not take it now.
    pub(crate) fn of(keys: &Arc<TlsKeys>, current: Current, chain: &[CertificateDer<'_>]) -> Option<Standing> {
        let signer = keys.signer(current.clients.as_deref(), chain)?;
        let certificates = chain.iter().map(|one| one.clone().into_owned()).collect();
        let last = Mutex::new(Verified { by: current.clients, counts: true });
        Some(Standing(Some(Arc::new(Chain { keys: keys.clone(), certificates, signer, last }))))
    }

    /// The authority of proxies has signed it.
    pub(crate) fn is_of_proxy(&self) -> bool {
        self.0.as_ref().is_some_and(|chain| chain.signer == Signer::OfProxies)
    }

    /// `end_s`: the end of the certificate, in seconds since 1970.
    pub(crate) fn counts(&self, end_s: i64) -> bool {
        self.0.as_ref().is_some_and(|chain| chain.keys.now_s() <= end_s && chain.is_trusted())
    }
}

impl Chain {
    fn is_trusted(&self) -> bool {
        let now = self.keys.current().clients;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.by.as_ref().map(Arc::as_ptr) != now.as_ref().map(Arc::as_ptr) {
            let counts = self.keys.signer(now.as_deref(), &self.certificates) == Some(self.signer);
            *last = Verified { by: now, counts };
        }
        last.counts
    }
}

/// The same chain of the same connection.
impl PartialEq for Standing {
    fn eq(&self, other: &Standing) -> bool {
        self.0.as_ref().map(Arc::as_ptr) == other.0.as_ref().map(Arc::as_ptr)
    }
}

impl Eq for Standing {}

impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Standing")
    }
}
