//! Review kinds of authentication and authorization: a create is answered, and nothing is stored.

use super::kind::{Kind, Verb};
use super::row::Group;
use crate::strategy::{self, review};
use std::borrow::Cow;

const WHO: Group = Group { name: "authentication.k8s.io", version: "v1", package: "authentication" };
const MAY: Group = Group { name: "authorization.k8s.io", version: "v1", package: "authorization" };

pub fn rows() -> Vec<Kind> {
    vec![
        question(WHO, "selfsubjectreviews", "selfsubjectreview", "SelfSubjectReview", review::who_am_i).of_cluster(),
        question(WHO, "tokenreviews", "tokenreview", "TokenReview", review::whose_token).of_cluster(),
        question(
            MAY,
            "localsubjectaccessreviews",
            "localsubjectaccessreview",
            "LocalSubjectAccessReview",
            review::may_they,
        ),
        question(MAY, "selfsubjectaccessreviews", "selfsubjectaccessreview", "SelfSubjectAccessReview", review::may_i)
            .of_cluster(),
        question(
            MAY,
            "selfsubjectrulesreviews",
            "selfsubjectrulesreview",
            "SelfSubjectRulesReview",
            review::what_may_i,
        )
        .of_cluster(),
        question(MAY, "subjectaccessreviews", "subjectaccessreview", "SubjectAccessReview", review::may_they)
            .of_cluster(),
    ]
}

fn question(
    group: Group,
    plural: &'static str,
    singular: &'static str,
    kind: &'static str,
    answer: review::Answer,
) -> Kind {
    Kind {
        verbs: Cow::Borrowed(&[Verb::Create]),
        fields: Vec::new(),
        answer: Some(answer),
        ..group.row(plural, singular, kind, &strategy::REVIEW)
    }
}
