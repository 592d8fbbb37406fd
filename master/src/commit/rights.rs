//! Rights that a change needs beside its verb, as the stored objects show: to make an object by an update, to make a
//! namespace on first use, to grant the rules of a role.

use super::furniture::NAMESPACES;
use super::{Change, CommitError, Registry, Terms};
use crate::admit::AdmissionRequest;
use crate::admit::roles::{self, Ungranted};
use crate::authorize::{Attributes, Decision};
use serde_json::Value;

impl Registry {
    /// An update or an apply that makes an object needs the right to make one, too.
    pub(super) fn may_create<E>(&self, change: &Change<'_, E>, terms: &Terms<'_>) -> Result<(), CommitError<E>> {
        let resource = terms.shown.unwrap_or(&change.kind.resource);
        let place = (change.namespace, change.name);
        self.may(&Attributes::resource("create", resource, "", place), terms)
            .map_err(|why| CommitError::forbidden(change.name.to_owned(), why))
    }

    pub(super) fn may_make_namespace(&self, terms: &Terms<'_>) -> Result<(), String> {
        self.may(&Attributes::resource("create", &NAMESPACES, "", ("", "")), terms)
    }

    /// Whether the writer may grant what a role or a binding gives.
    pub(super) fn may_grant<E>(
        &self,
        request: &AdmissionRequest<'_>,
        (name, object): (&str, &Value),
    ) -> Result<(), CommitError<E>> {
        roles::granted(request, object).map_err(|ungranted| match ungranted {
            Ungranted::Forbidden(why) => CommitError::forbidden(name.to_owned(), why),
            Ungranted::NoRole(role) => CommitError::NoRole(role),
        })
    }

    fn may(&self, attributes: &Attributes, terms: &Terms<'_>) -> Result<(), String> {
        match self.authorizer.authorize(attributes, terms.identity) {
            Decision::Allowed(_) => Ok(()),
            Decision::NoOpinion(why) | Decision::Denied(why) => Err(attributes.cannot(terms.identity, &why)),
        }
    }
}
