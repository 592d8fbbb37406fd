//! Limits the clients that are served at once: each address has its share, so that a single pod cannot take every
//! place. PURE.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

/// The places of one kind.
#[derive(Clone, Debug)]
pub struct Crowd {
    each_max: usize,
    all_max: usize,
    held: Rc<RefCell<BTreeMap<IpAddr, usize>>>,
}

/// A place; it is free again when this is dropped.
#[derive(Debug)]
pub struct Place {
    crowd: Crowd,
    who: IpAddr,
}

impl Crowd {
    pub fn new(each_max: usize, all_max: usize) -> Crowd {
        Crowd { each_max, all_max, held: Rc::default() }
    }

    pub fn enter(&self, who: IpAddr) -> Option<Place> {
        let mut held = self.held.borrow_mut();
        if held.values().sum::<usize>() >= self.all_max {
            return None;
        }
        let own = held.entry(who).or_default();
        if *own >= self.each_max {
            return None;
        }
        *own += 1;
        Some(Place { crowd: self.clone(), who })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.crowd.held.borrow_mut();
        if let Some(own) = held.get_mut(&self.who) {
            *own -= 1;
            if *own == 0 {
                held.remove(&self.who);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_share() {
        let crowd = Crowd::new(2, 5);
        let who = |last| IpAddr::from([10, 244, 0, last]);
        let enter = |last| crowd.enter(who(last));
        let (one, two) = (enter(1), enter(1));
        assert!(one.is_some() && two.is_some() && enter(1).is_none());
        let others = [enter(2), enter(2), enter(3)];
        assert!(others.iter().all(Option::is_some));
        assert!(enter(4).is_none(), "there is no place left");
        drop(one);
        assert!(enter(4).is_some(), "and back again");
        assert!(enter(1).is_some() && enter(2).is_none());
        drop((two, others));
        assert!(crowd.held.borrow().is_empty(), "nobody is remembered");
    }
}
