"""namespaces.py WORKER CHARLM TEXT [--quick]: ranks in network namespaces, which Open MPI joins by TCP. Each has two veth pairs: one to a bridge,
for mpirun, and one whose other end is a wire that this program is, in a namespace in between: it passes frames on, and loses or cuts them
when told. So the same happens on every kernel. Printed is a line for each case; exits 1 where a hash is not that of one process, or a
rank is not right. Needs root, `ip` and Open MPI."""
import ctypes
import fcntl
import os
import random
import re
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

RANKS, PREFIX, LIMIT_S = 3, f"ls{os.getpid()}", 90
HUB = f"{PREFIX}h"


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


# ---- the wire, in the namespace in between ----

def no_offload(name):
    """Frames come as they would be on a wire: with checksums, none larger than the interface says."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as some:
        for command in (0x17, 0x1f, 0x24):  # ETHTOOL_STXCSUM, _STSO, _SGSO; linux/ethtool.h
            value = ctypes.create_string_buffer(struct.pack("II", command, 0))
            try:
                fcntl.ioctl(some, 0x8946, struct.pack("16sP16x", name.encode(), ctypes.addressof(value)))
            except OSError:
                pass  # it has none of that kind


def wire(names):
    """Frames of one interface go to all others. On stdin: `loss P`, `cut K`, `whole`."""
    ends = []
    for name in names:
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        end.bind((name, 0))
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        ends.append(end)
    loss, cut, text = 0.0, set(), b""
    print("ready", flush=True)
    while True:
        for ready in select.select([sys.stdin, *ends], [], [])[0]:
            if ready is sys.stdin:
                text = os.read(0, 4096)
                if not text:
                    return
                for order, *value in map(str.split, text.decode().splitlines()):
                    loss = float(value[0]) if order == "loss" else loss
                    cut = {int(value[0])} if order == "cut" else set() if order == "whole" else cut
                print("done", flush=True)
                continue
            frame, (_, _, kind, *_) = ready.recvfrom(65536)
            if kind == 4 or ends.index(ready) in cut or random.random() < loss:  # 4: what we sent
                continue
            for k, end in enumerate(ends):
                if end is not ready and k not in cut:
                    try:
                        end.send(frame)
                    except OSError:
                        pass  # a full queue loses it


class Net:
    def __init__(self, folder):
        self.folder = folder

    def __enter__(self):
        try:
            self.make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def make(self):
        run("ip", "netns", "add", HUB)
        run("ip", "-n", HUB, "link", "add", "hub0", "type", "bridge")
        run("ip", "-n", HUB, "link", "set", "hub0", "up")
        for k in range(RANKS):
            own = f"{PREFIX}r{k}"
            run("ip", "netns", "add", own)
            for i, near in enumerate((f"w{k}", f"b{k}")):
                run("ip", "-n", HUB, "link", "add", near, "type", "veth", "peer", "name", f"eth{i}", "netns", own)
                run("ip", "-n", HUB, "link", "set", near, "up")
                run("ip", "-n", own, "addr", "add", f"10.{77 + i}.0.{k + 1}/24", "dev", f"eth{i}")
                run("ip", "-n", own, "link", "set", f"eth{i}", "up")
            run("ip", "-n", own, "link", "set", "lo", "up")
            run("ip", "-n", HUB, "link", "set", f"b{k}", "master", "hub0")
            run("ip", "netns", "exec", own, sys.executable, __file__, "--no-offload", "eth0")
        self.wire = subprocess.Popen(["ip", "netns", "exec", HUB, sys.executable, __file__, "--wire", *(f"w{k}" for k in range(RANKS))],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.wire.stdout.readline()

    def order(self, words):
        self.wire.stdin.write(words + "\n")
        self.wire.stdin.flush()
        self.wire.stdout.readline()

    def __exit__(self, *_):
        if hasattr(self, "wire"):
            self.wire.kill()
            self.wire.wait()
        for name in (HUB, *(f"{PREFIX}r{k}" for k in range(RANKS))):
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


# ---- what runs in the others ----

def start(folder, ranks, *command):
    """mpirun in the first rank's namespace; its daemons get to the others by an agent in place of ssh."""
    agent = os.path.join(folder, "agent")
    with open(agent, "w") as file:
        file.write(f'#!/bin/sh\nhost={PREFIX}r$((${{1##*.}} - 1)); shift\n'
                   'exec ip netns exec $host unshare --uts sh -c "hostname $host; $*"\n')
    os.chmod(agent, 0o755)
    hosts = ",".join(f"10.78.0.{k + 1}" for k in range(ranks))
    mpirun = (f"hostname {PREFIX}r0; exec mpirun.openmpi --mca plm_rsh_agent {agent} --mca btl tcp,self --mca btl_tcp_if_include eth0 "
              f"--mca oob_tcp_if_include eth1 --host {hosts} -n {ranks} {' '.join(command)}")
    return subprocess.Popen(["ip", "netns", "exec", f"{PREFIX}r0", "unshare", "--uts", "sh", "-c", mpirun], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True,
                            env=dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", LOCKSTEP_THREADS="1"))


def hangs(name, process):
    process.kill()
    sys.exit(f"{name}: it hangs")


def finish(name, process, judge):
    """Prints what the judge says of it; whether it is what is wanted."""
    try:
        output, errors = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        hangs(name, process)
    good, result = judge(output, errors)
    print(f"{name}: {result}", flush=True)
    return good


def right(scenario, ranks=RANKS):
    def judge(output, errors):
        count = len(re.findall(rf"^{scenario}: right on rank", output, re.M))
        return count == ranks, f"right on {ranks} ranks" if count == ranks else f"right on {count} ranks only: {errors.strip()[-500:]}"
    return judge


def hash_of(output):
    found = re.findall(r"^hash [0-9a-f]+$", output, re.M)
    return found[0] if found else None


def same(wanted):
    def judge(output, errors):
        found = hash_of(output)
        return found == wanted, found or errors.strip()[-500:]
    return judge


def wait_until_begun(name, process):
    text, limit = b"", time.monotonic() + LIMIT_S
    while b"begun" not in text:
        if not select.select([process.stdout], [], [], max(0, limit - time.monotonic()))[0]:
            hangs(name, process)
        more = os.read(process.stdout.fileno(), 4096)
        if not more:
            return  # it has ended, and is not right
        text += more


def cut_while_it_runs(net, worker, name, orders):
    process = start(net.folder, RANKS, worker, "until_it_fails")
    wait_until_begun(name, process)
    for order in orders:
        time.sleep(0.4)
        net.order(order)
    good = finish(name, process, right("until_it_fails"))
    net.order("whole")
    return good


def cases(net, worker, charlm, text, quick):
    """Whether each is as it is wanted, one by one."""
    train = [charlm, "--device cpu --blas none --layers 1 --channels 32 --heads 2 --context 16 --batch 16 --report 4 --evaluate 4",
             "--warm 3 --dropout 0.1 --sample 0 --steps 8 --hash --text", text]
    alone = subprocess.run(["sh", "-c", " ".join([*train, "--ranks 1"])], check=True, capture_output=True, text=True)
    wanted = hash_of(alone.stdout)
    print(f"one process: {wanted}", flush=True)
    yield wanted is not None
    net.order("loss 0.01")
    yield finish("1 % of the packets lost", start(net.folder, 2, *train, "--comm mpi"), same(wanted))
    net.order("loss 0")
    yield cut_while_it_runs(net, worker, "a link cut", ["cut 2"])
    if quick:
        return
    yield finish("a whole net", start(net.folder, RANKS - 1, *train, "--comm mpi"), same(wanted))
    for scenario in ("all_to_all_of_many_sizes", "random_operations", "all_gather_of_uneven_parts"):
        net.order("loss 0.01")
        yield finish(f"1 % lost, {scenario}", start(net.folder, RANKS, worker, scenario), right(scenario))
    net.order("loss 0")
    for scenario in ("slow_rank", "rank_that_keeps_others_waiting"):
        yield finish(scenario, start(net.folder, RANKS, worker, scenario), right(scenario))
    yield cut_while_it_runs(net, worker, "a link cut, mended, and another cut", ["cut 1", "whole", "cut 0"])


def main(worker, charlm, text, quick):
    with tempfile.TemporaryDirectory() as folder, Net(folder) as net:
        return not all(list(cases(net, worker, charlm, text, quick)))  # a list: all of them run


if __name__ == "__main__":
    if sys.argv[1:2] == ["--wire"]:
        wire(sys.argv[2:])
    elif sys.argv[1:2] == ["--no-offload"]:
        no_offload(sys.argv[2])
    elif len(sys.argv) - ("--quick" in sys.argv) == 4 and os.geteuid() == 0 and shutil.which("ip"):
        sys.exit(main(*sys.argv[1:4], "--quick" in sys.argv))
    else:
        sys.exit(__doc__)
