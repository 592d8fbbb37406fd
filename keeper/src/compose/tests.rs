//! Whole Compose files.

use super::*;

fn imported(text: &str) -> Imported {
    let variables = Variables([("TZ".to_owned(), "Europe/Berlin".to_owned())].into());
    let read = |path: &str| match path {
        "./db.env" => Ok("POSTGRES_USER=plant\nPOSTGRES_PASSWORD='s 3'\n".to_owned()),
        "./password.txt" => Ok("secret\n".to_owned()),
        other => Err(format!("{other} is not there")),
    };
    let around = Surroundings {
        project: "plant".to_owned(),
        folder: "/srv/plant".to_owned(),
        home: "/root".to_owned(),
        variables: &variables,
        read: &read,
    };
    import(text, &around).expect("a Compose file")
}

const PLANT: &str = r#"
version: "3.8"
x-common: &common
  restart: unless-stopped
services:
  mqtt:
    <<: *common
    image: eclipse-mosquitto:2
    ports: ["1883:1883"]
    volumes:
      - ./mosquitto/config:/mosquitto/config:ro
      - mqtt_data:/mosquitto/data
  db:
    image: postgres:16
    restart: always
    env_file: ./db.env
    environment:
      TZ: ${TZ}
      PGDATA: /data/$$x
    volumes: ["db:/var/lib/postgresql/data"]
    healthcheck:
      test: ["CMD-SHELL", "pg_isready -U plant"]
      interval: 10s
    secrets: [password]
    shm_size: 128m
    stop_grace_period: 1m
  nodered:
    image: nodered/node-red:4
    container_name: flows
    depends_on: [mqtt, db]
    devices: ["/dev/ttyUSB0:/dev/ttyUSB0"]
    user: "1000:20"
    cap_drop: [ALL]
    networks: {default: {aliases: [red]}}
    deploy: {resources: {limits: {memory: 256M, cpus: "0.5"}}}
  migrate:
    image: migrate:1
    restart: "no"
    command: migrate -path "/a b" up
  extra:
    image: x
    profiles: [debug]
volumes:
  mqtt_data:
  db: {}
secrets:
  password: {file: ./password.txt}
"#;

#[test]
fn a_plant() {
    let imported = imported(PLANT);
    let file = |name: &str| &imported.files.iter().find(|(file, _)| file == name).expect(name).1;
    let names: Vec<&str> = imported.files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["plant-shared", "db", "migrate", "mqtt", "nodered"]);
    let kinds: Vec<&Value> = file("plant-shared").iter().map(|object| &object["kind"]).collect();
    assert_eq!(kinds, ["PersistentVolumeClaim", "PersistentVolumeClaim", "Secret"]);
    let pod = |name: &str| file(name)[0]["spec"]["template"]["spec"].clone();

    let mqtt = pod("mqtt");
    assert_eq!(mqtt["containers"][0]["ports"][0]["hostPort"], 1883);
    let paths: Vec<&Value> = mqtt["volumes"].as_array().expect("volumes").iter().collect();
    assert_eq!(paths[0]["hostPath"]["path"], "/srv/plant/mosquitto/config");
    assert_eq!(paths[1]["persistentVolumeClaim"]["claimName"], "mqtt-data");
    assert_eq!(mqtt["containers"][0]["volumeMounts"][0]["readOnly"], true);

    let db = pod("db");
    let env = db["containers"][0]["env"].as_array().expect("env").clone();
    let value = |name: &str| env.iter().find(|one| one["name"] == name).expect(name)["value"].clone();
    assert_eq!((value("TZ"), value("PGDATA")), (json!("Europe/Berlin"), json!("/data/$x")));
    assert_eq!((value("POSTGRES_USER"), value("POSTGRES_PASSWORD")), (json!("plant"), json!("s 3")));
    assert_eq!(db["containers"][0]["readinessProbe"]["periodSeconds"], 10);
    assert_eq!(db["terminationGracePeriodSeconds"], 60);
    let mounts = db["containers"][0]["volumeMounts"].as_array().expect("mounts").clone();
    assert!(mounts.iter().any(|mount| mount["mountPath"] == "/run/secrets/password" && mount["subPath"] == "password"));
    assert!(mounts.iter().any(|mount| mount["mountPath"] == "/dev/shm"));

    let nodered = pod("nodered");
    let container = &nodered["containers"][0];
    assert_eq!(container["resources"]["limits"], json!({"memory": "256Mi", "cpu": "0.5", "compose/ttyusb0": 1}));
    assert_eq!(container["securityContext"]["runAsGroup"], 20);
    let services: Vec<&Value> = file("nodered")[1..].iter().map(|object| &object["metadata"]["name"]).collect();
    assert_eq!(services, ["flows", "nodered", "red"]);

    let migrate = &file("migrate")[0];
    assert_eq!((&migrate["kind"], &migrate["spec"]["restartPolicy"]), (&json!("Pod"), &json!("Never")));
    assert_eq!(migrate["spec"]["containers"][0]["args"], json!(["migrate", "-path", "/a b", "up"]));

    for words in [
        "depends_on",
        "devices = compose/ttyusb0=1:/dev/ttyUSB0",
        "restart: none is given",
        "profiles debug",
        "data are not copied",
    ] {
        assert!(imported.remarks.iter().any(|remark| remark.contains(words)), "{words}: {:#?}", imported.remarks);
    }
}

#[test]
fn what_is_refused() {
    let variables = Variables::default();
    let read = |_: &str| Err("no".to_owned());
    let around = Surroundings {
        project: "p".to_owned(),
        folder: "/p".to_owned(),
        home: "/root".to_owned(),
        variables: &variables,
        read: &read,
    };
    for (text, words) in [
        ("kind: Pod", "no Compose file"),
        ("services: {a: {build: .}}", "docker build -t"),
        ("services: {a: {image: '${X:?say}'}}", "variable X is required: say"),
        ("services: {a: {image: x, command: \"a 'b\"}}", "a quote has no end"),
        ("services: [", ""),
    ] {
        let why = import(text, &around).expect_err(text);
        assert!(why.contains(words), "{text}: {why}");
    }
}

#[test]
fn every_remark_names_its_key() {
    let imported = imported(
        "services:\n  a:\n    image: x\n    restart: always\n    build: .\n    ulimits: {nofile: 1}\n    network_mode: \
         service:b\n    security_opt: [label:x]\n    extra_hosts: ['h:host-gateway', 'p:10.0.0.1']\n    frobs: 1\n    \
         volumes: [/x, 'a:b:c:d']\n    environment: [NONE]\nnetworks: {n: {driver: macvlan}}\nfrob: 1\n",
    );
    for words in [
        "build",
        "ulimits",
        "network_mode service:b",
        "security_opt label:x",
        "host-gateway",
        "frobs",
        "/x: an anonymous volume",
        "a:b:c:d",
        "environment NONE",
        "networks.n",
        "frob: it has no",
    ] {
        assert!(imported.remarks.iter().any(|remark| remark.contains(words)), "{words}: {:#?}", imported.remarks);
    }
    let spec = &imported.files[0].1[0]["spec"]["template"]["spec"];
    assert_eq!(spec["hostAliases"], json!([{"ip": "10.0.0.1", "hostnames": ["p"]}]));
}
