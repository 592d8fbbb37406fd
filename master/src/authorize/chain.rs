//! Several authorizers in order. PURE.

use super::{Attributes, Authorizer, Decision, RuleList};
use coracle_api::meta::Revision;
use coracle_http::Identity;
use std::sync::Arc;

/// The group whose members may do everything, whatever the roles say.
pub const MASTERS: &str = "system:masters";

/// The first authorizer that allows or denies decides.
pub struct Chain(pub Vec<Arc<dyn Authorizer>>);

impl Authorizer for Chain {
    fn authorize(&self, attributes: &Attributes, identity: &Identity) -> Decision {
        let mut reasons = Vec::new();
        for authorizer in &self.0 {
            match authorizer.authorize(attributes, identity) {
                Decision::NoOpinion(why) => reasons.extend(Some(why).filter(|why| !why.is_empty())),
                decision => return decision,
            }
        }
        Decision::NoOpinion(reasons.join("\n"))
    }

    fn changed(&self) -> Revision {
        self.0.iter().map(|authorizer| authorizer.changed()).max().unwrap_or_default()
    }

    fn rules(&self, identity: &Identity, namespace: &str) -> RuleList {
        let mut all = RuleList::default();
        let mut errors = Vec::new();
        for authorizer in &self.0 {
            let RuleList { rules, incomplete, error } = authorizer.rules(identity, namespace);
            all.rules.extend(rules);
            all.incomplete |= incomplete;
            errors.extend(Some(error).filter(|error| !error.is_empty()));
        }
        all.error = match errors.len() {
            0 | 1 => errors.concat(),
            _ => format!("[{}]", errors.join(", ")),
        };
        all
    }
}

/// Allows the administrators everything.
pub struct Masters;

impl Authorizer for Masters {
    fn authorize(&self, _: &Attributes, identity: &Identity) -> Decision {
        match identity.groups.iter().any(|group| group == MASTERS) {
            true => Decision::Allowed(String::new()),
            false => Decision::NoOpinion(String::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_opinion_counts() {
        let said = |decision: Decision| -> Arc<dyn Authorizer> {
            Arc::new(move |_: &Attributes, _: &Identity| decision.clone())
        };
        let no = |why: &str| Decision::NoOpinion(why.to_owned());
        let (yes, never) = (Decision::Allowed("yes".to_owned()), Decision::Denied("never".to_owned()));
        let path = Attributes::Path { verb: "get".to_owned(), path: "/".to_owned() };
        let check = |decisions: &[Decision], groups: &[&str], expected: Decision| {
            let chain: Vec<Arc<dyn Authorizer>> = decisions.iter().cloned().map(said).collect();
            let masters: Arc<dyn Authorizer> = Arc::new(Masters);
            let chain = Chain([masters].into_iter().chain(chain).collect());
            let groups = groups.iter().map(|group| (*group).to_owned()).collect();
            let identity = Identity { groups, ..Identity::none() };
            assert_eq!(chain.authorize(&path, &identity), expected, "{decisions:?}");
        };
        check(&[no("a"), no(""), no("b")], &[], no("a\nb"));
        check(&[no("a"), yes.clone(), never.clone()], &[], yes.clone());
        check(&[never.clone(), yes], &[], never.clone());
        check(&[never], &[MASTERS], Decision::Allowed(String::new()));
    }
}
