//! Servers that the balancer takes out by itself: nginx that is killed and comes back, and a host
//! that says nothing any more. Nobody tells the balancer.

use std::time::Instant;

use super::{Hosts, PATIENCE, SERVERS, nginx, repository};

/// Who has answered a client.
fn ask(hosts: &Hosts) -> String {
    let ask = "curl --silent --show-error --fail --max-time 20 http://10.0.0.100/";
    let output = hosts.run_in(&hosts.names[0], ask);
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Asks until a server has answered; others answer in the meantime, and nobody is refused.
fn until_asked(hosts: &Hosts, name: &str) {
    let start = Instant::now();
    while ask(hosts) != name {
        assert!(start.elapsed() < PATIENCE, "{name} has not come back");
    }
}

/// Asks until the balancer says that something has happened to a server.
fn until_told(hosts: &Hosts, event: &str) {
    let start = Instant::now();
    loop {
        ask(hosts);
        let request = [
            "nf",
            "control",
            "flow-balancer",
            "balance",
            r#"{"events": 10}"#,
        ];
        let told = hosts.catena(&request).stdout;
        if String::from_utf8_lossy(&told).contains(event) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "no {event}");
    }
}

#[test]
fn nginx_is_killed_and_clients_do_not_notice_but_for_a_second() {
    let test = "nginx_is_killed_and_clients_do_not_notice_but_for_a_second";
    let Some(mut hosts) = Hosts::new(test, ["clients", "servers"]) else {
        return;
    };
    let right = hosts.names[2].clone();
    hosts.join_servers();
    let started = SERVERS.map(|(name, address)| nginx(&mut hosts, name, address));
    hosts.start_chain("flow-balancer", &repository("chains/flow-balancer.yaml"));
    for (name, _) in SERVERS {
        until_asked(&hosts, name);
    }
    // Its host refuses connections from now on. Every client gets its answer, and soon at once.
    let killed = &mut hosts.children[started[2]];
    killed.kill().unwrap();
    killed.wait().unwrap();
    until_told(&hosts, "server_out");
    let answers: Vec<String> = (0..20).map(|_| ask(&hosts)).collect();
    assert!(!answers.contains(&"three".to_owned()), "{answers:?}");
    // A host that is gone does not even refuse.
    hosts.ip(&right, "address delete 10.0.1.1/32 dev eth0");
    until_told(&hosts, "server_out");
    let answers: Vec<String> = (0..10).map(|_| ask(&hosts)).collect();
    assert_eq!(answers, ["two"; 10]);
    // Both are there again, and get connections without anybody's doing.
    hosts.ip(&right, "address add 10.0.1.1/32 dev eth0");
    nginx(&mut hosts, "three", "10.0.1.3");
    until_asked(&hosts, "three");
    until_asked(&hosts, "one");
}
