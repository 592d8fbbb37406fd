"""The usual Python client (package `kubernetes`) against a master at sys.argv[1].

Each function is one test: it prints nothing and raises when the answer is not what it must be.
"""

import sys
import threading

import kubernetes
from kubernetes import client, dynamic, watch
from kubernetes.client.rest import ApiException

NAMESPACE = "default"
PATIENCE_S = 30

configuration = client.Configuration()
configuration.host = sys.argv[1]
api = client.ApiClient(configuration)
core, apps, batch = client.CoreV1Api(api), client.AppsV1Api(api), client.BatchV1Api(api)


def config_map(name, data, **metadata):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, **metadata), data=data)


def pod(name, **labels):
    container = client.V1Container(name="main", image="nginx:1", ports=[client.V1ContainerPort(container_port=80)])
    return client.V1Pod(metadata=client.V1ObjectMeta(name=name, labels=labels), spec=client.V1PodSpec(containers=[container]))


def refused(status, call, *args, **kwargs):
    """The exception of a call that must be refused with this status."""
    try:
        call(*args, **kwargs)
    except ApiException as refusal:
        assert refusal.status == status, (refusal.status, refusal.body)
        return refusal
    raise AssertionError("%s was not refused" % call.__name__)


def version_and_groups():
    version = client.VersionApi(api).get_code()
    assert int(version.major) == 1 and version.git_version.startswith("v1."), version
    groups = [group.name for group in client.ApisApi(api).get_api_versions().groups]
    assert "apps" in groups and "batch" in groups, groups
    resources = [resource.name for resource in core.get_api_resources().resources]
    assert "pods" in resources and "pods/status" in resources, resources


def create_read_replace_patch_delete():
    made = core.create_namespaced_config_map(NAMESPACE, config_map("crud", {"a": "1"}))
    assert made.metadata.uid and made.metadata.creation_timestamp.tzinfo is not None
    assert "AlreadyExists" in refused(409, core.create_namespaced_config_map, NAMESPACE, made_again("crud")).body
    read = core.read_namespaced_config_map("crud", NAMESPACE)
    assert read.data == {"a": "1"} and read.metadata.resource_version == made.metadata.resource_version
    read.data["b"] = "2"
    replaced = core.replace_namespaced_config_map("crud", NAMESPACE, read)
    assert replaced.data == {"a": "1", "b": "2"}
    # `read` is of before the replacement.
    refused(409, core.replace_namespaced_config_map, "crud", NAMESPACE, read)
    patched = core.patch_namespaced_config_map("crud", NAMESPACE, {"data": {"a": None, "c": "3"}})
    assert patched.data == {"b": "2", "c": "3"}, patched.data
    operations = [{"op": "replace", "path": "/data/b", "value": "9"}]
    assert core.patch_namespaced_config_map("crud", NAMESPACE, operations).data["b"] == "9"
    core.patch_namespaced_config_map("crud", NAMESPACE, {"data": {"b": "dry"}}, dry_run="All")
    assert core.read_namespaced_config_map("crud", NAMESPACE).data["b"] == "9"
    core.delete_namespaced_config_map("crud", NAMESPACE)
    assert "NotFound" in refused(404, core.read_namespaced_config_map, "crud", NAMESPACE).body


def made_again(name):
    return config_map(name, {"a": "1"})


def typed_kinds():
    """Answers fit the client's own models, which know what is required."""
    deployment = client.V1Deployment(
        metadata=client.V1ObjectMeta(name="web"),
        spec=client.V1DeploymentSpec(
            replicas=2,
            selector=client.V1LabelSelector(match_labels={"app": "web"}),
            template=client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels={"app": "web"}), spec=pod("x").spec),
        ),
    )
    made = apps.create_namespaced_deployment(NAMESPACE, deployment)
    assert made.spec.strategy.rolling_update.max_surge == "25%" and made.metadata.generation == 1
    port = client.V1ServicePort(port=80, target_port="http")
    # No selector: the slice that is kept for a service that nobody serves has null endpoints, which this client takes from no server.
    service = client.V1Service(metadata=client.V1ObjectMeta(name="web"), spec=client.V1ServiceSpec(ports=[port]))
    assert core.create_namespaced_service(NAMESPACE, service).spec.ports[0].target_port == "http"
    job = client.V1Job(
        metadata=client.V1ObjectMeta(name="once"),
        spec=client.V1JobSpec(template=client.V1PodTemplateSpec(spec=client.V1PodSpec(restart_policy="Never", containers=pod("x").spec.containers))),
    )
    assert batch.create_namespaced_job(NAMESPACE, job).spec.backoff_limit == 6
    secret = client.V1Secret(metadata=client.V1ObjectMeta(name="s"), string_data={"a": "b"})
    assert core.create_namespaced_secret(NAMESPACE, secret).data == {"a": "Yg=="}
    for listing in (
        core.list_namespace, core.list_node, core.list_pod_for_all_namespaces, core.list_service_for_all_namespaces,
        core.list_endpoints_for_all_namespaces, core.list_event_for_all_namespaces, core.list_secret_for_all_namespaces,
        apps.list_deployment_for_all_namespaces, apps.list_replica_set_for_all_namespaces, batch.list_job_for_all_namespaces,
        client.CoordinationV1Api(api).list_lease_for_all_namespaces, client.DiscoveryV1Api(api).list_endpoint_slice_for_all_namespaces,
        client.RbacAuthorizationV1Api(api).list_cluster_role, client.NetworkingV1Api(api).list_ingress_for_all_namespaces,
        client.StorageV1Api(api).list_storage_class, client.AutoscalingV1Api(api).list_horizontal_pod_autoscaler_for_all_namespaces,
    ):
        assert listing().metadata.resource_version, listing.__name__


def invalid_is_told():
    wrong = pod("wrong")
    wrong.spec.containers[0].name = "Not A Name"
    body = refused(422, core.create_namespaced_pod, NAMESPACE, wrong).body
    assert "spec.containers[0].name" in body, body


def selectors_and_pages():
    for at in range(5):
        core.create_namespaced_config_map(NAMESPACE, config_map("page-%d" % at, {"n": str(at)}, labels={"set": "pages"}))
    names, more = [], None
    while more is None or more:
        page = core.list_namespaced_config_map(NAMESPACE, label_selector="set=pages", limit=2, _continue=more)
        assert len(page.items) <= 2
        names += [item.metadata.name for item in page.items]
        more = page.metadata._continue or ""
    assert names == ["page-%d" % at for at in range(5)], names
    found = core.list_namespaced_config_map(NAMESPACE, field_selector="metadata.name=page-3").items
    assert [item.metadata.name for item in found] == ["page-3"]
    refused(400, core.list_namespaced_config_map, NAMESPACE, limit=2, _continue="nonsense")


def watch_from_a_version():
    """As an informer does: list, then watch from the list's version; nothing is missed and nothing comes twice."""
    listed = core.list_namespaced_config_map(NAMESPACE, label_selector="set=watched")
    assert listed.items == []
    labels = {"set": "watched"}
    core.create_namespaced_config_map(NAMESPACE, config_map("w", {"a": "1"}, labels=labels))
    core.patch_namespaced_config_map("w", NAMESPACE, {"data": {"a": "2"}})
    core.delete_namespaced_config_map("w", NAMESPACE)
    seen, stream = [], watch.Watch()
    for event in stream.stream(
        core.list_namespaced_config_map, NAMESPACE, label_selector="set=watched",
        resource_version=listed.metadata.resource_version, timeout_seconds=PATIENCE_S,
    ):
        seen.append((event["type"], event["object"].data["a"]))
        if event["type"] == "DELETED":
            stream.stop()
    assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")], seen


def watch_while_it_happens():
    """A cache that follows the watch is what a list says, with a writer beside it and bookmarks in between."""
    version = core.list_namespaced_config_map(NAMESPACE, label_selector="set=live").metadata.resource_version
    cache, done = {}, threading.Event()

    def follow():
        stream = watch.Watch()
        for event in stream.stream(
            core.list_namespaced_config_map, NAMESPACE, label_selector="set=live", resource_version=version,
            allow_watch_bookmarks=True, timeout_seconds=PATIENCE_S,
        ):
            if event["type"] == "BOOKMARK":
                continue
            thing = event["object"]
            if event["type"] == "DELETED":
                cache.pop(thing.metadata.name)
            else:
                cache[thing.metadata.name] = thing.data["n"]
            if thing.metadata.name == "live-last":
                stream.stop()
                done.set()

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    labels = {"set": "live"}
    for at in range(20):
        core.create_namespaced_config_map(NAMESPACE, config_map("live-%d" % at, {"n": "0"}, labels=labels))
        core.patch_namespaced_config_map("live-%d" % at, NAMESPACE, {"data": {"n": str(at)}})
        if at % 5 == 4:
            core.delete_namespaced_config_map("live-%d" % at, NAMESPACE)
    core.create_namespaced_config_map(NAMESPACE, config_map("live-last", {"n": "0"}, labels=labels))
    assert done.wait(PATIENCE_S), "the watch did not bring the last object"
    listed = {item.metadata.name: item.data["n"] for item in core.list_namespaced_config_map(NAMESPACE, label_selector="set=live").items}
    assert cache == listed, (cache, listed)


def dynamic_client():
    anything = dynamic.DynamicClient(api)
    services = anything.resources.get(api_version="v1", kind="Service")
    assert services.namespaced and "svc" in services.short_names
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "dyn"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}
    made = services.create(body=body, namespace=NAMESPACE)
    assert made.spec.clusterIP
    changed = services.patch(
        body={"spec": {"selector": {"a": "c"}}}, name="dyn", namespace=NAMESPACE, content_type="application/merge-patch+json"
    )
    assert changed.spec.selector.a == "c"
    assert [item.metadata.name for item in services.get(namespace=NAMESPACE, field_selector="metadata.name=dyn").items] == ["dyn"]
    for event in services.watch(namespace=NAMESPACE, name="dyn", timeout=PATIENCE_S):
        assert event["type"] == "ADDED" and event["object"].metadata.name == "dyn"
        break
    config_maps = anything.resources.get(api_version="v1", kind="ConfigMap")
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "1"}}
    # Before 27 it cannot send what it takes.
    if int(kubernetes.__version__.split(".")[0]) >= 27:
        for manager, colour in (("one", "1"), ("one", "2")):
            applied["data"]["a"] = colour
            answer = config_maps.server_side_apply(body=applied, name="applied", namespace=NAMESPACE, field_manager=manager)
        assert answer.data.a == "2"
        applied["data"]["a"] = "3"
        try:
            config_maps.server_side_apply(body=applied, name="applied", namespace=NAMESPACE, field_manager="two")
            raise AssertionError("a conflict was not told")
        except dynamic.exceptions.ConflictError as conflict:
            assert "conflict with" in str(conflict), conflict
    services.delete(name="dyn", namespace=NAMESPACE)
    try:
        services.get(name="dyn", namespace=NAMESPACE)
        raise AssertionError("it is still there")
    except dynamic.exceptions.NotFoundError:
        pass


def pods_and_their_status():
    core.create_namespaced_pod(NAMESPACE, pod("status", app="s"))
    said = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    patched = core.patch_namespaced_pod_status("status", NAMESPACE, said)
    assert patched.status.phase == "Running" and patched.status.conditions[0].type == "Ready"
    found = core.list_namespaced_pod(NAMESPACE, field_selector="status.phase=Running").items
    assert [item.metadata.name for item in found] == ["status"]
    gone = core.delete_namespaced_pod("status", NAMESPACE, grace_period_seconds=0)
    assert gone.metadata.name == "status"


def reviews():
    attributes = client.V1ResourceAttributes(verb="create", resource="pods", namespace=NAMESPACE)
    review = client.V1SelfSubjectAccessReview(spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes))
    assert client.AuthorizationV1Api(api).create_self_subject_access_review(review).status.allowed


def leases():
    """What leader election does."""
    coordination = client.CoordinationV1Api(api)
    lease = client.V1Lease(metadata=client.V1ObjectMeta(name="leader"), spec=client.V1LeaseSpec(holder_identity="a", lease_duration_seconds=15))
    made = coordination.create_namespaced_lease(NAMESPACE, lease)
    made.spec.holder_identity = "b"
    taken = coordination.replace_namespaced_lease("leader", NAMESPACE, made)
    assert taken.spec.holder_identity == "b"
    refused(409, coordination.replace_namespaced_lease, "leader", NAMESPACE, made)


TESTS = [
    version_and_groups, create_read_replace_patch_delete, typed_kinds, invalid_is_told, selectors_and_pages, watch_from_a_version,
    watch_while_it_happens, dynamic_client, pods_and_their_status, reviews, leases,
]

if __name__ == "__main__":
    failed = 0
    for test in TESTS:
        try:
            test()
            print("ok", test.__name__)
        except Exception as wrong:  # the next test is told of as well
            failed += 1
            import traceback

            print("WRONG", test.__name__, "%s: %s" % (type(wrong).__name__, wrong))
            traceback.print_exc(limit=4)
    sys.exit(1 if failed else 0)
