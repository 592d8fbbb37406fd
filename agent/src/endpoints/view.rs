//! What the handlers of the agent's endpoints look at.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;

use crate::config::Config;
use crate::desired::refusals::Refusals;
use crate::desired::restarts::RestartList;
use crate::desired::unkept::Unkept;
use crate::facts::pod_cidr::PodCidr;
use crate::facts::shown::Shown;
use crate::figures::LastReadings;
use crate::figures::probes::Tallies;
use crate::host::machine::Host;
use crate::runtime::docker::Docker;
use crate::telling::sources::ProblemSources;
use crate::updates::board::Board;

/// What the handlers look at.
#[derive(Clone)]
pub struct View {
    pub shown: watch::Receiver<Arc<Shown>>,
    pub docker: Arc<Docker>,
    pub runtime: tokio::runtime::Handle,
    pub node_name: String,
    /// Where the rest is asked for.
    pub socket: PathBuf,
    pub data_dir: String,
    pub host: Host,
    /// The readings that rates begin with.
    pub last: Arc<LastReadings>,
    /// Files of the agent's own that could not be written.
    pub unkept: Unkept,
    /// Requests that the master refuses.
    pub refusals: Refusals,
    /// What is wrong with this node.
    pub problems: ProblemSources,
    /// Restarts that were asked for.
    pub restarts: RestartList,
    /// The range of the pods' addresses.
    pub pods: PodCidr,
    /// What came of probes.
    pub tallies: Arc<Tallies>,
    /// Updates of images.
    pub board: Board,
}

impl View {
    pub fn new(
        docker: Arc<Docker>,
        config: &Config,
        (host, pods): (Host, PodCidr),
        problems: ProblemSources,
        restarts: RestartList,
    ) -> View {
        let ProblemSources { shown, unkept, refusals, board, .. } = problems.clone();
        let (node_name, socket, data_dir) = (config.node_name.clone(), config.socket.clone(), config.data_dir.clone());
        let (last, tallies) = (Arc::default(), Arc::default());
        View {
            shown,
            docker,
            runtime: tokio::runtime::Handle::current(),
            node_name,
            socket,
            data_dir,
            host,
            last,
            unkept,
            refusals,
            problems,
            restarts,
            pods,
            tallies,
            board,
        }
    }
}
