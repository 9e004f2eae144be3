#pragma once

/// The exit codes of every command. `meshbus run` adds those of timeout(1) and of shells.
namespace meshbus::cli {

/// What was asked for could not be found or done; stderr says why.
inline constexpr int kFailed = 1;
/// The command line or a setting is wrong. Nothing was done.
inline constexpr int kUsage = 2;
/// `meshbus host` could not start or was refused: EX_UNAVAILABLE of sysexits(3).
inline constexpr int kUnavailable = 69;
/// `meshbus run`: a host was lost, and with it ranks of the job.
inline constexpr int kHostLost = 123;
/// `meshbus run`: --timeout ran out.
inline constexpr int kTimedOut = 124;
/// meshbus itself failed.
inline constexpr int kOwnFailure = 125;
/// Nobody reads our output: as if SIGPIPE had ended us.
inline constexpr int kBrokenPipe = 128 + 13;
/// `meshbus run`: another launcher or command stopped the ranks, as SIGTERM would have.
inline constexpr int kStopped = 128 + 15;

}  // namespace meshbus::cli
