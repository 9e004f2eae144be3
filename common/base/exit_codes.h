#pragma once

/// The exit codes of every program of meshbus: docs/reference/exit-codes.md is the same list for
/// people. Those from 64 to 78 are of sysexits(3), those from 124 on of timeout(1) and of shells.
namespace meshbus::exits {

/// What was asked for could not be found or done; stderr says why.
inline constexpr int kFailed = 1;
/// The command line or a setting is wrong. Nothing was done.
inline constexpr int kUsage = 2;
/// A file or descriptor that is needed cannot be read.
inline constexpr int kNoInput = 66;
/// A host or a daemon cannot start: its address is taken, or something that it needs is not there.
inline constexpr int kUnavailable = 69;
/// A fault of meshbus itself, or of one of its processes, ends a host or a daemon.
inline constexpr int kSoftware = 70;
/// The system refuses what a daemon cannot do without (descriptors, memory, threads).
inline constexpr int kSystem = 71;
/// A file of the system that is needed is not there.
inline constexpr int kSystemFile = 72;
/// A mesh proc: its agent or its broker is away for too long.
inline constexpr int kAway = 75;
/// The other side does not let us in.
inline constexpr int kNoPermission = 77;
/// What a mesh proc, or a part of a host, was started with cannot be read.
inline constexpr int kConfig = 78;
/// `meshbus run`: a host was lost, and with it ranks of the job.
inline constexpr int kHostLost = 123;
/// `meshbus run`: --timeout ran out.
inline constexpr int kTimedOut = 124;
/// meshbus itself failed.
inline constexpr int kOwnFailure = 125;
/// The command of a rank cannot be executed.
inline constexpr int kCannotExecute = 126;
/// There is no such command.
inline constexpr int kNotFound = 127;
/// Ended by that signal, or as if.
inline constexpr int by_signal(int signal) {
  return 128 + signal;
}

}  // namespace meshbus::exits
