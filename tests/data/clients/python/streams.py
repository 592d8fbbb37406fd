"""The usual Python client looks into pods, through a master at sys.argv[1]; sys.argv[2] is an image of busybox. Pod `box` runs and
serves on port 8080 of its loopback.

Each function is one test: it prints nothing and raises when the answer is not what it must be.
"""

import json
import os
import sys
import time

import yaml
from kubernetes import client
from kubernetes.stream import portforward, stream
from kubernetes.stream import ws_client

NAMESPACE = "default"
PATIENCE_S = 60
MANY = 50

configuration = client.Configuration()
configuration.host = sys.argv[1]
core = client.CoreV1Api(client.ApiClient(configuration))


def core_of_its_own():
    """A stream changes the client that it is opened with while it is opened."""
    return client.CoreV1Api(client.ApiClient(configuration))


def command(*words, **options):
    core = core_of_its_own()
    settings = {"stdin": False, "stdout": True, "stderr": True, "tty": False, "container": "c"}
    settings.update(options)
    return stream(core.connect_get_namespaced_pod_exec, "box", NAMESPACE, command=list(words), **settings)


def a_command_and_what_it_prints():
    assert command("sh", "-c", "echo out") == "out\n"


def exit_codes_and_both_outputs():
    opened = command("sh", "-c", "echo out; echo err >&2; exit 7", _preload_content=False)
    opened.run_forever(timeout=PATIENCE_S)
    assert opened.returncode == 7, opened.returncode
    assert (opened.read_stdout(), opened.read_stderr()) == ("out\n", "err\n")


def an_error_is_a_status():
    opened = command("/no/such", _preload_content=False)
    opened.run_forever(timeout=PATIENCE_S)
    status = yaml.safe_load(opened.read_channel(ws_client.ERROR_CHANNEL))
    assert status["status"] == "Failure" and status["reason"] == "InternalError", status
    assert "no such file or directory" in status["message"], status


def a_conversation():
    opened = command("sh", "-c", "while read -r line; do echo heard $line; [ $line = end ] && exit 3; done", stdin=True, _preload_content=False)
    for word in ["one", "two", "end"]:
        opened.write_stdin(word + "\n")
        heard = opened.readline_stdout(timeout=PATIENCE_S)
        assert heard == "heard " + word, heard
    opened.run_forever(timeout=PATIENCE_S)
    assert opened.returncode == 3, opened.returncode


def a_terminal_and_its_sizes():
    opened = command("sh", stdin=True, tty=True, _preload_content=False)
    for height, width in [(31, 97), (24, 80)]:
        opened.write_channel(ws_client.RESIZE_CHANNEL, json.dumps({"Height": height, "Width": width}))
        opened.write_stdin("until [ \"$(stty size)\" = '%d %d' ]; do sleep 0.1; done; echo si''zed %d\n" % (height, width, height))
        seen, until = "", time.time() + PATIENCE_S
        while "sized %d" % height not in seen:
            assert time.time() < until, seen
            seen += opened.read_stdout(timeout=1) or ""
    opened.write_stdin("exit 4\n")
    opened.run_forever(timeout=PATIENCE_S)
    assert opened.returncode == 4, opened.returncode


def many_at_once():
    opened = [command("cat", stdin=True, _preload_content=False) for _ in range(MANY)]
    for number, one in enumerate(opened):
        one.write_stdin("this is %d\n" % number)
    for number, one in enumerate(opened):
        heard = one.readline_stdout(timeout=PATIENCE_S)
        assert heard == "this is %d" % number, (number, heard)
    for one in opened:
        one.close()


def attached():
    container = {"name": "c", "image": sys.argv[2], "stdin": True, "tty": True,
                 "command": ["sh", "-c", "while read -r line; do echo heard $line; done"]}
    pod = {"metadata": {"name": "ears"}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 1}}
    core.create_namespaced_pod(NAMESPACE, pod)
    until = time.time() + PATIENCE_S
    while core.read_namespaced_pod("ears", NAMESPACE).status.phase != "Running":
        assert time.time() < until
        time.sleep(0.1)
    opened = stream(core_of_its_own().connect_get_namespaced_pod_attach, "ears", NAMESPACE, stdin=True, stdout=True, stderr=False, tty=True,
                    _preload_content=False)
    opened.write_stdin("one\n")
    seen = ""
    while "heard one" not in seen:
        assert time.time() < until, seen
        seen += opened.read_stdout(timeout=1) or ""
    opened.close()


def forwarded_ports():
    opened = portforward(core_of_its_own().connect_get_namespaced_pod_portforward, "box", NAMESPACE, ports="8080,9")
    http = opened.socket(8080)
    http.setblocking(True)
    http.sendall(b"GET /cgi-bin/sum HTTP/1.0\r\n\r\n")
    answer = b""
    while True:
        piece = http.recv(65536)
        if not piece:
            break
        answer += piece
    assert answer.startswith(b"HTTP/1.0 200") or answer.startswith(b"HTTP/1.1 200"), answer
    assert b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" in answer, answer
    until = time.time() + PATIENCE_S
    while not opened.error(9):
        assert time.time() < until
        time.sleep(0.1)
    assert "connection refused" in opened.error(9), opened.error(9)
    assert opened.error(8080) is None, opened.error(8080)


def followed_logs():
    lines = []
    answer = core.read_namespaced_pod_log("box", NAMESPACE, follow=True, _preload_content=False)
    for line in answer.stream():
        lines.append(line)
        break
    answer.close()
    assert lines == [b"ready\n"], lines


TESTS = [a_command_and_what_it_prints, exit_codes_and_both_outputs, an_error_is_a_status, a_conversation, a_terminal_and_its_sizes,
         many_at_once, attached, forwarded_ports, followed_logs]


def main():
    for test in TESTS:
        try:
            test()
        except BaseException:
            print("FAILED: %s" % test.__name__, flush=True)
            raise
    print("all is well", flush=True)


main()
# Threads of the client that wait for what is closed are no reason to stay.
os._exit(0)
