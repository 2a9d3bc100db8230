"""The sandbox's own program: it confines itself by system calls, then becomes the command.

`sandbox.py` runs it as `python -I -S _sandbox_main.py PLAN COMMAND…`; PLAN is JSON with the fields of `Plan`. With
bubblewrap it runs inside, where the mounts and namespaces are made already. Any step that fails ends it with a message
and the exit code 125, before the command has started: a command never runs with less than what was asked for.

Where the network is off, it first starts the forwarder: a process of ours that listens on loopback inside the sandbox
and passes connections through a Unix socket to the proxy outside (`sandbox_network.py`). It ends with the command.

It runs alone, so it imports nothing but the standard library, and little of that.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import signal
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

EXIT_CODE = 125
"""The exit code where the sandbox could not be set up."""

VARIABLE_PREFIX = "DRAGOMAN_INSIDE_"
"""The command's variables have names with this prefix, so that nothing heeds them before the command does."""

# -- system calls: the libc of the oldest supported systems has no functions for these

_libc = ctypes.CDLL(None, use_errno=True)

# The same on every architecture.
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF, MOUNT_SETATTR = 444, 445, 446, 442
CAPSET = {"x86_64": 126, "aarch64": 91}
SECCOMP = {"x86_64": 317, "aarch64": 277}

PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 4, 24, 38
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWNET = 0x0002_0000, 0x0800_0000, 0x1000_0000, 0x4000_0000
MS_NOSUID, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 8, 0x1000, 0x4000, 0x4_0000
MOUNT_ATTR_RDONLY, AT_FDCWD = 1, -100


def _syscall(number: int, *arguments: Any) -> int:
    """Make a system call; raise `OSError` where it fails."""
    result: int = _libc.syscall(number, *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _prctl(*arguments: int) -> None:
    if _libc.prctl(*(ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:5])) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


# -- Landlock: files, TCP ports, signals and abstract sockets

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
MAKE_SOCK, MAKE_FIFO, MAKE_SYM = 1 << 9, 1 << 10, 1 << 12
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
# Of all rights, those that a rule for a file may have.
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

READ = EXECUTE | READ_FILE | READ_DIR
# Not the making of devices. The right of ioctl is about devices alone.
WRITE = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM
WRITE |= REFER | TRUNCATE
DEVICE = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV

BIND_TCP, CONNECT_TCP = 1 << 0, 1 << 1
SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS = 1 << 0, 1 << 1
RULE_PATH, RULE_PORT = 1, 2


def landlock_version() -> int:
    """Return the version of the kernel's Landlock interface; 0 where there is none."""
    if not sys.platform.startswith("linux"):
        return 0
    try:
        return _syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    except OSError:
        return 0


def handled_rights(version: int) -> int:
    """Return all rights on files that this version can withhold."""
    bits = 13 + (version >= 2) + (version >= 3) + (version >= 5)
    return (1 << bits) - 1


def open_own_terminals() -> list[int]:
    """Open the terminals that this process has already, for rules: they may be used by name, `> /dev/stderr`."""
    opened = []
    for descriptor in range(3):
        try:
            opened.append(os.open(os.ttyname(descriptor), os.O_PATH | os.O_CLOEXEC))
        except OSError:
            continue  # no terminal, or one that has no name here
    return opened


def restrict_with_landlock(plan: dict[str, Any], terminals: list[int]) -> None:
    """Confine this process and its children. `files` maps a right to paths; without it files are left as they are."""
    version = landlock_version()
    files: dict[str, list[str]] | None = plan.get("files")
    ports: list[int] | None = plan.get("tcp_ports")
    handled = handled_rights(version) if files is not None else 0
    if ports is not None and version < 4:
        raise OSError(errno.ENOSYS, f"Landlock {version} cannot confine TCP")
    network = BIND_TCP | CONNECT_TCP if ports is not None else 0
    scopes = (SCOPE_ABSTRACT_SOCKETS | (SCOPE_SIGNALS if files is not None else 0)) if version >= 6 else 0
    if not handled | network | scopes:
        return
    attributes = struct.pack("=QQQ", handled, network, scopes)[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = _syscall(LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0))
    rights = {"read": READ, "write": WRITE, "list": READ_DIR, "device": DEVICE, "devices": DEVICE | READ_DIR}
    for name, paths in (files or {}).items():
        for path in paths:
            _add_path(ruleset, path, rights[name] & handled)
    for terminal in terminals if files is not None else ():
        _add_file(ruleset, terminal, DEVICE & handled)
    for port in ports or ():
        rule = struct.pack("=QQ", CONNECT_TCP, port)
        _syscall(LANDLOCK_ADD_RULE, ruleset, ctypes.c_uint(RULE_PORT), rule, ctypes.c_uint(0))
    _syscall(LANDLOCK_RESTRICT_SELF, ruleset, ctypes.c_uint(0))
    os.close(ruleset)


def _add_path(ruleset: int, path: str, rights: int) -> None:
    try:
        file = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # gone meanwhile, or closed to this user anyway
    try:
        if not os.path.isdir(f"/proc/self/fd/{file}"):
            rights &= FILE_RIGHTS
        _add_file(ruleset, file, rights)
    finally:
        os.close(file)


def _add_file(ruleset: int, file: int, rights: int) -> None:
    rule = struct.pack("=Qi", rights, file)
    _syscall(LANDLOCK_ADD_RULE, ruleset, ctypes.c_uint(RULE_PATH), rule, ctypes.c_uint(0))


# -- seccomp: what neither Landlock nor namespaces cover

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32_BIT = 0x4000_0000

# Numbers of system calls, x86_64 and aarch64.
SYSCALLS: dict[str, tuple[int, int]] = {
    "socket": (41, 198),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
    "setsockopt": (54, 208),
    "ioctl": (16, 29),
    "prlimit64": (302, 261),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "open_by_handle_at": (304, 265),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}
# The kernel's keys and its dangerous parts: no program of a project needs them.
ALWAYS_DENIED = (
    *("add_key", "request_key", "keyctl", "bpf", "perf_event_open", "userfaultfd", "open_by_handle_at"),
    *("kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module"),
)
# Memory and queues that all processes of a user share, where there is no namespace for them.
SHARED_MEMORY = tuple(name for name in SYSCALLS if name.startswith(("shm", "sem", "msg", "mq_")))
# It does what other calls do without making them.
IO_URING = ("io_uring_setup", "io_uring_enter", "io_uring_register")

# They connect without `connect`, which is what Landlock looks at.
MSG_FASTOPEN, TCP_FASTOPEN_CONNECT = 0x2000_0000, 30
FAST_OPEN_FLAGS = {"sendto": 3, "sendmsg": 2, "sendmmsg": 3}  # the calls, and their argument with the flags

TIOCSTI, TIOCLINUX = 0x5412, 0x541C
AF_NETLINK, SOCK_STREAM, SOCK_TYPE_MASK = 16, 1, 0xF
LD_WORD, JUMP_EQ, JUMP_GE, JUMP, RETURN, AND = 0x20, 0x15, 0x35, 0x05, 0x06, 0x54
ALLOW, ERRNO = 0x7FFF_0000, 0x0005_0000
NUMBER_OFFSET, ARCH_OFFSET, FIRST_ARGUMENT_OFFSET = 0, 4, 16

Instruction = tuple[int, int, int, int]


def _argument(index: int) -> Instruction:
    """Load the lower half of an argument: the calls here take ints."""
    return (LD_WORD, 0, 0, FIRST_ARGUMENT_OFFSET + 8 * index)


def seccomp_filter(machine: str, *, sockets: str, is_sharing_denied: bool, are_others_denied: bool) -> bytes:
    """Return the program for the kernel. `sockets`: "local" (of Unix and IP), "internet" (IP), or "tcp" (TCP alone).

    `is_sharing_denied`: no memory and queues that all processes of a user share. `are_others_denied`: no limits are
    set for other processes.
    """
    column = list(AUDIT_ARCH).index(machine)
    deny = (RETURN, 0, 0, ERRNO | errno.EPERM)
    denied: list[str] = [*ALWAYS_DENIED, *(SHARED_MEMORY if is_sharing_denied else ())]
    blocks: list[tuple[str, list[Instruction]]] = [(name, [deny]) for name in denied]
    blocks += [(name, [(RETURN, 0, 0, ERRNO | errno.ENOSYS)]) for name in IO_URING]
    blocks.append(("socket", _tcp_block() if sockets == "tcp" else _family_block(sockets)))
    allow = (RETURN, 0, 0, ALLOW)
    if sockets == "tcp":
        for name, index in FAST_OPEN_FLAGS.items():
            blocks.append((name, [_argument(index), (AND, 0, 0, MSG_FASTOPEN), (JUMP_EQ, 0, 1, 0), allow, deny]))
        is_option = [_argument(1), (JUMP_EQ, 0, 3, int(socket.IPPROTO_TCP)), _argument(2)]
        blocks.append(("setsockopt", [*is_option, (JUMP_EQ, 0, 1, TCP_FASTOPEN_CONNECT), deny, allow]))
    blocks.append(
        ("ioctl", [_argument(1), (JUMP_EQ, 1, 0, TIOCSTI), (JUMP_EQ, 0, 1, TIOCLINUX), deny, allow]),
    )
    if are_others_denied:
        blocks.append(("prlimit64", [_argument(0), (JUMP_EQ, 0, 1, 0), allow, deny]))
    program: list[Instruction] = [
        (LD_WORD, 0, 0, ARCH_OFFSET),
        (JUMP_EQ, 1, 0, AUDIT_ARCH[machine]),
        deny,  # the calls of 32-bit programs have other numbers
        (LD_WORD, 0, 0, NUMBER_OFFSET),
    ]
    if machine == "x86_64":
        program += [(JUMP_GE, 0, 1, X32_BIT), deny]
    for name, block in blocks:
        program += [(JUMP_EQ, 0, len(block), SYSCALLS[name][column]), *block]
    program.append(allow)
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _family_block(sockets: str) -> list[Instruction]:
    """Allow IPv4, IPv6, and the question for the machine's own addresses; "local" also allows sockets of Unix.

    No others: some, such as those between a virtual machine and its host, pass by all namespaces.
    """
    families = [int(socket.AF_INET), int(socket.AF_INET6), AF_NETLINK, *([int(socket.AF_UNIX)] * (sockets == "local"))]
    allow, deny = (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, ERRNO | errno.EACCES)
    tests = [(JUMP_EQ, len(families) - index, 0, family) for index, family in enumerate(families)]
    return [_argument(0), *tests, deny, allow]


def _tcp_block() -> list[Instruction]:
    """Allow TCP over IPv4 and IPv6, and the question for the machine's own addresses."""
    allow, deny = (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, ERRNO | errno.EACCES)
    return [
        _argument(0),
        (JUMP_EQ, 3, 0, int(socket.AF_INET)),
        (JUMP_EQ, 2, 0, int(socket.AF_INET6)),
        (JUMP_EQ, 8, 0, AF_NETLINK),
        deny,
        _argument(1),
        (AND, 0, 0, SOCK_TYPE_MASK),
        (JUMP_EQ, 1, 0, SOCK_STREAM),
        deny,
        _argument(2),
        (JUMP_EQ, 1, 0, 0),
        (JUMP_EQ, 0, 1, int(socket.IPPROTO_TCP)),  # not MPTCP, which Landlock does not see
        allow,
        deny,
    ]


def has_seccomp() -> bool:
    """Return whether the kernel takes filters."""
    errno_action = ctypes.c_uint(ERRNO)
    try:
        _syscall(SECCOMP[platform.machine()], ctypes.c_uint(2), ctypes.c_uint(0), ctypes.byref(errno_action))
    except (OSError, KeyError):
        return False
    return True


def apply_seccomp(plan: dict[str, Any]) -> None:
    program = seccomp_filter(
        platform.machine(),
        sockets=plan["sockets"],
        is_sharing_denied=plan.get("is_sharing_denied", False),
        are_others_denied=plan.get("are_others_denied", False),
    )
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    _syscall(SECCOMP[platform.machine()], ctypes.c_uint(1), ctypes.c_uint(0), header)


# -- privileges and namespaces

# CHOWN, DAC_OVERRIDE, FOWNER and FSETID: without them root could not work on a workspace of another user.
KEPT_CAPABILITIES = (0, 1, 3, 4)
MAX_CAPABILITY = 63


def drop_privileges() -> None:
    """Keep no capability but those on files, and never gain one by a program with the set-user-id bit."""
    for capability in range(MAX_CAPABILITY + 1):
        if capability not in KEPT_CAPABILITIES:
            try:
                _prctl(PR_CAPBSET_DROP, capability)
            except OSError:
                pass  # no such capability; or not root, and there is nothing to drop
    wanted = sum(1 << capability for capability in KEPT_CAPABILITIES) if os.geteuid() == 0 else 0
    with open("/proc/self/status", encoding="ascii") as status:
        permitted = next((int(line.split()[1], 16) for line in status if line.startswith("CapPrm:")), 0)
    header = struct.pack("=Ii", 0x20080522, 0)
    wanted &= permitted
    data = struct.pack("=IIIIII", wanted, wanted, 0, 0, 0, 0)
    _syscall(CAPSET[platform.machine()], header, data)


def enter_namespaces(*, network: bool, pinned: Sequence[str] = (), fixed: Sequence[str] = ()) -> None:
    """Enter a user namespace with the same ids, with terminals and shared memory of its own.

    With `network` it also gets a network of its own, which has only loopback. `pinned` paths cannot be renamed or
    removed inside, and `fixed` ones not changed either: they are mounts, outer ones first.
    """
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC | (CLONE_NEWNET if network else 0)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"no namespaces for this user: {os.strerror(code)}")
    try:
        if user != 0:
            raise PermissionError
        _write("/proc/self/uid_map", "0 0 4294967295")
        _write("/proc/self/gid_map", "0 0 4294967295")
    except OSError:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    _mount("none", "/", "", MS_REC | MS_PRIVATE)
    if os.path.isdir("/dev/shm"):  # noqa: S108
        _mount("tmpfs", "/dev/shm", "mode=1777")  # noqa: S108
    _mount("devpts", "/dev/pts", "newinstance,ptmxmode=0666,mode=0620")
    if not os.path.islink("/dev/ptmx"):
        _mount("/dev/pts/ptmx", "/dev/ptmx", "", MS_BIND)
    for path in (*pinned, *fixed):
        if os.path.exists(path):  # otherwise it was removed outside
            _mount(path, path, "", MS_BIND)
            if path in fixed:
                attributes = struct.pack("=QQQQ", MOUNT_ATTR_RDONLY, 0, 0, 0)
                size = ctypes.c_size_t(len(attributes))
                _syscall(MOUNT_SETATTR, AT_FDCWD, path.encode(), ctypes.c_uint(0), attributes, size)
    os.chdir(os.getcwd())  # the current folder may be under one of these mounts
    if network:
        start_loopback()


def _mount(source: str, target: str, options: str, flags: int = 0) -> None:
    """Mount a new file system whose type is its source, or what the flags say."""
    kind = None if flags else source.encode()
    harmless = 0 if flags else MS_NOSUID | MS_NOEXEC
    if _libc.mount(source.encode(), target.encode(), kind, ctypes.c_ulong(flags | harmless), options.encode()) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{target} cannot be mounted: {os.strerror(code)}")


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def start_loopback() -> None:
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        up_and_running = 0x1 | 0x40
        fcntl.ioctl(control, 0x8914, struct.pack("16sh22x", b"lo", up_and_running))


# -- the forwarder


def start_forwarder(socket_path: str, proxy_port: int, ports: list[int]) -> None:
    """Start it in a process of its own. Its ports listen, and the proxy knows of it, when this returns."""
    listeners = {port: _listen(port) for port in (proxy_port, *ports)}
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.connect(socket_path)
    control.sendall(b"control\n")
    command = os.pidfd_open(os.getpid())
    if os.fork():
        for each in (*listeners.values(), control):
            each.close()
        os.close(command)
        os.wait()
        return
    if os.fork():  # so that it is no child of the command, which may wait for all its children
        os._exit(0)
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(null, descriptor)
        # A signal to the group is for the command. And what the command may not do, it shall not do by tracing this.
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        _prctl(PR_SET_DUMPABLE, 0)
        _forward(socket_path, proxy_port, listeners, control, command)
    finally:
        os._exit(0)


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    return listener


def _forward(
    path: str, proxy_port: int, listeners: dict[int, socket.socket], control: socket.socket, command: int
) -> None:
    import asyncio

    async def serve(port: int, listener: socket.socket) -> Any:
        greeting = b"proxy\n" if port == proxy_port else f"port {port}\n".encode()

        async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                their_reader, their_writer = await asyncio.open_unix_connection(path)
            except OSError:
                writer.close()
                return
            their_writer.write(greeting)
            await asyncio.gather(relay(reader, their_writer), relay(their_reader, writer), return_exceptions=True)

        return await asyncio.start_server(pass_on, sock=listener)

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()
        except OSError:
            writer.close()

    async def main() -> None:
        servers = {port: await serve(port, listener) for port, listener in listeners.items()}
        asyncio.get_running_loop().add_reader(command, os._exit, 0)
        reader, writer = await asyncio.open_unix_connection(sock=control)
        while line := await reader.readline():
            port = int(line)
            answer = "ok"
            if port not in servers:
                try:
                    servers[port] = await serve(port, _listen(port))
                except OSError as error:
                    answer = error.strerror or "failed"
            writer.write(f"{port} {answer}\n".encode())
            await writer.drain()

    asyncio.run(main())


# -- the program


def main() -> NoReturn:
    plan: dict[str, Any] = json.loads(sys.argv[1])
    command = sys.argv[2:]
    try:
        terminals = open_own_terminals()
        if (namespaces := plan.get("namespaces")) is not None:
            enter_namespaces(**namespaces)
        network = plan.get("network")
        landlock = plan.get("landlock")
        # Landlock keeps the command from a process outside of it; otherwise the forwarder is confined like the command.
        is_first = landlock is not None and landlock.get("files") is not None
        if network is not None and is_first:
            start_forwarder(**network)
        _prctl(PR_SET_NO_NEW_PRIVS, 1)
        if landlock is not None:
            restrict_with_landlock(landlock, terminals)
        drop_privileges()
        if plan.get("seccomp") is not None:
            apply_seccomp(plan["seccomp"])
        if network is not None and not is_first:
            start_forwarder(**network)
    except (OSError, KeyError, ValueError) as error:
        _fail(f"the sandbox cannot be set up: {error}", EXIT_CODE)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores some, and they would stay ignored
    try:
        os.execve(command[0], command, command_environment(os.environ))  # noqa: S606
    except OSError as error:
        code = 126 if error.errno == errno.EACCES else 127
        _fail(f"{command[0]} cannot be run in the sandbox: {error.strerror}", code)


def command_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the command. Of our own it gets the current folder, and the marker of its process."""
    environment = {name.removeprefix(VARIABLE_PREFIX): env[name] for name in env if name.startswith(VARIABLE_PREFIX)}
    for name, value in env.items():
        if name == "PWD" or (name.startswith("DRAGOMAN_") and not name.startswith(VARIABLE_PREFIX)):
            environment[name] = value
    return environment


def _fail(message: str, code: int) -> NoReturn:
    sys.stderr.write(f"dragoman: {message}\n")
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
