"""Has a worker make system calls of somebody else's choice, as an NF in an attacker's hands could.

Usage: holes.py PID. Stops each thread of the process, has it make each call with the memory that
it shares with its neighbours, puts all back, and lets it go on. No code is changed, which others of
its threads may run: calls are made by an instruction that is there. Prints what the kernel said to
each, by thread, as JSON: 0, or the number of the error. x86-64, for whoever may trace the process.
Sources: ptrace(2), seccomp(2), madvise(2), fallocate(2), `linux/falloc.h`, System V ABI for AMD64,
section A.2.1.
"""

import ctypes
import json
import os
import signal
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]

SINGLESTEP, GETREGS, SETREGS, ATTACH, DETACH = 9, 12, 13, 16, 17
FALLOCATE, FTRUNCATE, MADVISE, IOCTL = 285, 77, 28, 16
KEEP_SIZE_AND_PUNCH_HOLE = 3
WILLNEED, DONTNEED, REMOVE = 3, 4, 9
FS_IOC_UNRESVSP = 0x40305829
SYSCALL = b"\x0f\x05"
PAGE = 4096

NAMES = (
    "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss "
    "fs_base gs_base ds es fs gs"
).split()


class Registers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in NAMES]


def trace(request, thread, address=None, data=None):
    ctypes.set_errno(0)
    result = libc.ptrace(request, thread, address, data)
    if ctypes.get_errno():
        raise OSError(ctypes.get_errno(), f"ptrace {request} of {thread}")
    return result


def shared_memory(pid):
    """The largest mapping that a neighbour has, too, and that this process may write."""
    found = []
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps:
        for line in maps:
            fields = line.split(maxsplit=5)
            if fields[1] == "rw-s" and "memfd:catena" in fields[-1]:
                start, end = (int(part, 16) for part in fields[0].split("-"))
                found.append((end - start, start))
    return max(found)[1]


def entrance(pid):
    """Where in its code the process calls the kernel."""
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps:
        mappings = maps.readlines()
    with open(f"/proc/{pid}/mem", "rb") as memory:
        for line in mappings:
            fields = line.split(maxsplit=5)
            # The last one of all is no memory.
            if fields[1] == "r-xp" and "[vsyscall]" not in fields[-1]:
                start, end = (int(part, 16) for part in fields[0].split("-"))
                memory.seek(start)
                at = memory.read(end - start).find(SYSCALL)
                if at >= 0:
                    return start + at
    raise LookupError(f"process {pid} never calls the kernel")


def descriptors(pid):
    """Numbers of the shared memory that it has open; an invalid one, which nobody has, if none."""
    folder = f"/proc/{pid}/fd"
    links = {fd: os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder)}
    return [int(fd) for fd, path in links.items() if "memfd:catena" in path] or [-1]


def stopped_by(thread):
    """Waits for a thread to stop; gives the signal that it stops with."""
    _, status = os.waitpid(thread, 0x40000000)
    if not os.WIFSTOPPED(status):
        raise ChildProcessError(f"thread {thread} ended: {status:#x}")
    return os.WSTOPSIG(status)


def call(thread, gate, number, arguments):
    """Has a stopped thread make a call by the instruction at `gate`; gives what the kernel said."""
    before = Registers()
    trace(GETREGS, thread, None, ctypes.byref(before))
    now = Registers.from_buffer_copy(before)
    now.rip, now.rax, now.orig_rax = gate, number, 2**64 - 1
    names = ["rdi", "rsi", "rdx", "r10"]
    for name, value in zip(names, arguments):
        setattr(now, name, value % 2**64)
    trace(SETREGS, thread, None, ctypes.byref(now))
    trace(SINGLESTEP, thread)
    signalled = stopped_by(thread)
    trace(GETREGS, thread, None, ctypes.byref(now))
    trace(SETREGS, thread, None, ctypes.byref(before))
    if signalled != signal.SIGTRAP or now.rip != gate + len(SYSCALL):
        raise ChildProcessError(f"signal {signalled} at {now.rip:#x} instead of the call's end")
    result = ctypes.c_longlong(now.rax).value
    return -result if result < 0 else 0


def attack(thread, gate, memory, open_memory):
    """Has a thread of the process make all calls; gives what the kernel said to each."""
    trace(ATTACH, thread)
    stopped_by(thread)
    said = {}
    try:
        for name, advice in [
            ("madvise WILLNEED", WILLNEED),
            ("madvise DONTNEED", DONTNEED),
            ("madvise REMOVE", REMOVE),
        ]:
            said[name] = call(thread, gate, MADVISE, [memory, PAGE, advice])
        for fd in open_memory:
            hole = [fd, KEEP_SIZE_AND_PUNCH_HOLE, 0, PAGE]
            said[f"fallocate {fd}"] = call(thread, gate, FALLOCATE, hole)
            said[f"ioctl {fd}"] = call(thread, gate, IOCTL, [fd, FS_IOC_UNRESVSP, memory])
            if fd >= 0:
                said[f"ftruncate {fd}"] = call(thread, gate, FTRUNCATE, [fd, 0])
    finally:
        trace(DETACH, thread)
    return said


pid = int(sys.argv[1])
of_process = entrance(pid), shared_memory(pid), descriptors(pid)
threads = sorted(int(thread) for thread in os.listdir(f"/proc/{pid}/task"))
print(json.dumps([attack(thread, *of_process) for thread in threads]))
