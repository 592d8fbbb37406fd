//! The agent gives memory back after a burst, and else does nothing. Its clock stands still while there is something to
//! do.

use coracle_agent::facts::heard::ClusterServices;
use coracle_agent::facts::shown::Shown;
use coracle_agent::facts::view::{ClusterView, ViewWriter};
use coracle_agent::running::giving::{self, CHANGES, SERVICES_CHANGES};
use coracle_program::lull::STRETCH;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::time::{Duration, Instant, sleep, timeout};

#[tokio::test(start_paused = true)]
async fn an_agent_gives_back_what_a_burst_took() {
    let (shown_in, shown) = watch::channel(Arc::new(Shown::default()));
    let view = ViewWriter::new(ClusterView::default());
    let services = view.part(|view| &view.services);
    let (sender, mut given) = mpsc::unbounded_channel();
    let runs = giving::run(shown, services, move || sender.send(Instant::now()).expect("the test listens"));
    let test = async move {
        let change = async || {
            shown_in.send_replace(Arc::new(Shown::default()));
            sleep(Duration::from_secs(1)).await;
        };
        assert!(timeout(2 * STRETCH, given.recv()).await.is_ok(), "a start is a burst");
        assert!(timeout(10 * STRETCH, given.recv()).await.is_ok(), "and what it let go later");
        for (changes, expected) in [(CHANGES - 1, false), (CHANGES, true), (5 * CHANGES, true)] {
            for _ in 0..changes {
                change().await;
            }
            let came = timeout(10 * STRETCH, given.recv()).await.is_ok();
            assert_eq!(came, expected, "after {changes} changes");
            assert_eq!(timeout(10 * STRETCH, given.recv()).await.is_ok(), expected, "once more after {changes}");
            assert!(timeout(100 * STRETCH, given.recv()).await.is_err(), "and never again after {changes}");
        }
        for (changes, expected) in [(SERVICES_CHANGES - 1, false), (SERVICES_CHANGES, true)] {
            for _ in 0..changes {
                view.replace(|view| &mut view.services, ClusterServices::default());
                sleep(Duration::from_millis(100)).await;
            }
            assert_eq!(
                timeout(10 * STRETCH, given.recv()).await.is_ok(),
                expected,
                "after {changes} changes of services"
            );
        }
    };
    tokio::join!(runs, test);
}
