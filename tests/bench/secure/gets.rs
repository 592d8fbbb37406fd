//! A GET of 2 KB on connections that are kept, with 1 and 32 clients.

use crate::load::{Figures, Way, run};
use crate::servers::{Ground, Server};
use crate::tls::{HTTP_1, HTTP_2};
use std::time::Duration;

const CLIENTS: [usize; 2] = [1, 32];
const LASTS: Duration = Duration::from_millis(1500);
/// Of requests a second, with TLS.
const AIM_OF_NGINX: f64 = 0.7;

struct Line {
    name: String,
    cells: Vec<Figures>,
}

pub fn table(ground: &Ground) -> Result<String, String> {
    let servers = [ground.bare()?, ground.master()?, ground.nginx()?];
    let mut text = format!("  {:<34}", "");
    for clients in CLIENTS {
        text += &format!("{:>44}", format!("{clients} clients: /s, p50/p99 us, us CPU a request"));
    }
    text.push('\n');
    let mut lines = Vec::new();
    for server in &servers {
        if let Some(address) = server.plain {
            lines.push(line(server, "HTTP/1.1 without TLS", &way(ground, server, (address, false), HTTP_1))?);
        }
        for (name, protocol) in ground.protocols() {
            lines.push(line(server, &format!("{name}, TLS"), &way(ground, server, (server.secure, true), protocol))?);
        }
    }
    for line in &lines {
        text += &format!("  {:<34}", line.name);
        for cell in &line.cells {
            text += &format!("{:>16.0} {:>9.0}/{:<9.0}{:>8.1}", cell.rate, cell.median_us, cell.p99_us, cell.cpu_us);
        }
        text.push('\n');
    }
    let find = |name: &str| lines.iter().find(|line| line.name == name).map(|line| &line.cells);
    for (protocol, _) in ground.protocols() {
        let nginx = find(&format!("nginx, {protocol}, TLS")).ok_or("nginx was not asked")?;
        let open = find("the bare handler, HTTP/1.1 without TLS").ok_or("the bare handler was not asked")?;
        for name in ["the bare handler", "the API"] {
            let ours = find(&format!("{name}, {protocol}, TLS")).ok_or("not asked")?;
            for (at, clients) in CLIENTS.iter().enumerate() {
                let (of_nginx, of_open) = (ours[at].rate / nginx[at].rate, ours[at].rate / open[at].rate);
                let verdict = if of_nginx >= AIM_OF_NGINX { "met" } else { "NOT MET" };
                text += &format!(
                    "  {name}, {protocol}, {clients} clients: {of_nginx:.2} of nginx (aim {AIM_OF_NGINX}: {verdict}), \
                     CPU {:.2} of it; {of_open:.2} of the bare handler without TLS\n",
                    ours[at].cpu_us / nginx[at].cpu_us
                );
            }
        }
    }
    servers.into_iter().for_each(Server::stop);
    Ok(text)
}

fn way<'s>(
    ground: &Ground,
    server: &'s Server,
    (address, is_secure): (std::net::SocketAddr, bool),
    protocol: &[u8],
) -> Way<'s> {
    let config = is_secure.then(|| ground.config(Some(&ground.viewer), protocol));
    Way { address, config, is_http2: protocol == HTTP_2, path: &server.path }
}

fn line(server: &Server, what: &str, way: &Way<'_>) -> Result<Line, String> {
    let name = format!("{}, {what}", server.name);
    let cells = CLIENTS.iter().map(|clients| run(way, server.pid(), *clients, LASTS)).collect::<Result<_, _>>();
    Ok(Line { cells: cells.map_err(|why| format!("{name}: {why}"))?, name })
}
