#include "agent/host/output/output_reader.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "agent/host/output/log_streams.h"
#include "wire/logs_generated.h"

namespace meshbus::host {
namespace {

/// The most that a pipe can hold for an ordinary user (/proc/sys/fs/pipe-max-size): what finish()
/// reads at most.
constexpr std::size_t kLargestPipe = 1024 * 1024;
constexpr int kResumedAtOnce = 8;
constexpr std::size_t kTailBytes = LineTail::Limits().max_bytes;

}  // namespace

void OutputReader::attach(Proc& proc, UniqueFd out, UniqueFd err) {
  proc.out.fd = std::move(out);
  proc.err.fd = std::move(err);
  for (OutputPipe* pipe : {&proc.out, &proc.err}) {
    if (!pipe->fd) continue;
    // A former life has left files, which go on.
    keep_file(proc, *pipe,
              pipe->before.file == 0 || pipe->file ? LogFile::Aside()
                                                   : LogFile::find_aside(proc.mesh.log_directory));
    watch(proc, *pipe);
  }
  if (!proc.out.fd && !proc.err.fd) close(proc);
}

void OutputReader::take_over(Proc& proc, const LogFile::Aside& aside) {
  for (OutputPipe* pipe : {&proc.out, &proc.err}) {
    StreamOffsets& at = pipe->at;
    if (proc.slot != 0) {
      at.read = pipe->before.read + spool_.written(proc.slot, pipe->stream);
      if (const auto file = spool_.file(proc.slot, pipe->stream); file != 0)
        at.file = pipe->before.read + file;
    }
    const std::string kept = spool_.text(proc.slot, pipe->stream, 0);
    pipe->tail.start_at(at.read - kept.size());
    pipe->tail.append(kept);
    if (at.read != 0) keep_file(proc, *pipe, aside);
    // What was read last may not have come so far; what is there already is not written twice.
    if (pipe->file && !kept.empty()) pipe->file->append(at.read - kept.size(), kept);
    if (proc.mesh.relaying) {
      // Without a slot its owner has taken all.
      const auto taken =
          proc.slot == 0 ? at.read : pipe->before.read + spool_.released(proc.slot, pipe->stream);
      proc.mesh.relay.restore(proc.rank(), pipe->stream, taken);
      proc.mesh.relay.add(
          proc.rank(), pipe->stream,
          Bytes(kept).substr(kept.size() - std::min<std::size_t>(kept.size(), at.read - taken)));
    }
    if (!proc.exit_reported) continue;
    at.ended = true;
    pipe->tail.shrink(LogStreams::kept_after_end);
    if (pipe->file) pipe->file->close();
  }
  if (!proc.exit_reported) return;
  proc.output_ended = true;
  if (proc.mesh.relaying) proc.mesh.relay.end_rank(proc.rank());
}

void OutputReader::keep_file(Proc& proc, OutputPipe& pipe, const LogFile::Aside& aside) {
  if (proc.mesh.log_directory.empty() || pipe.file) return;
  const auto name =
      std::to_string(proc.rank()) + (pipe.stream == wire::Stream::out ? ".out" : ".err");
  pipe.file = std::make_unique<LogFile>(proc.mesh.log_directory + "/" + name, file_limits_,
                                        [this, &proc, &pipe](std::uint64_t begin) {
                                          pipe.at.file = begin + 1;
                                          spool_.set_file(proc.slot, pipe.stream,
                                                          pipe.at.file - pipe.before.read);
                                        });
  if (pipe.at.file == 0) return;
  const auto found = aside.find(name);
  pipe.file->resume(pipe.at.file - 1,
                    found == aside.end() ? std::deque<LogFile::Part>() : found->second);
}

void OutputReader::watch(Proc& proc, OutputPipe& pipe) {
  pipe.paused = false;
  reactor_.watch(pipe.fd.get(), EPOLLIN,
                 [this, &proc, &pipe](std::uint32_t) { on_readable(proc, pipe); });
}

void OutputReader::on_readable(Proc& proc, OutputPipe& pipe) {
  if (proc.mesh.relaying && !proc.mesh.relay.wants_more()) {
    // Not watched at all, because a pipe that is at its end is always ready.
    reactor_.forget(pipe.fd.get());
    pipe.paused = true;
    proc.mesh.paused.emplace_back(proc.rank(), pipe.stream);
    return;
  }
  std::size_t bytes = 0;
  if (read(proc, pipe, buffer_.size(), bytes) == Outcome::end) end(proc, pipe);
}

OutputReader::Outcome OutputReader::read(Proc& proc, OutputPipe& pipe, std::size_t most,
                                         std::size_t& bytes) {
  const ssize_t got = spool_.read(proc.slot, pipe.stream, pipe.fd.get(), buffer_.data(),
                                  std::min(most, buffer_.size()));
  bytes = got > 0 ? static_cast<std::size_t>(got) : 0;
  if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? Outcome::nothing_now : Outcome::end;
  if (got == 0) return Outcome::end;
  const Bytes taken(buffer_.data(), bytes);
  Mesh& mesh = proc.mesh;
  if (mesh.log_readers != 0 && mesh.unflushed + bytes > kTailBytes) events_.flush(mesh);
  if (pipe.file) pipe.file->append(pipe.at.read, taken);
  pipe.at.read += bytes;
  pipe.tail.append(taken);
  if (mesh.relaying) {
    mesh.relay.add(proc.rank(), pipe.stream, taken);
  } else {
    spool_.release_all(proc.slot, pipe.stream);
  }
  if (mesh.log_readers != 0) {
    mesh.unflushed += bytes;
    events_.on_news(proc, pipe);
  }
  return Outcome::some;
}

void OutputReader::take_available(Proc& proc, OutputPipe& pipe) {
  int available = 0;
  if (!pipe.fd || ioctl(pipe.fd.get(), FIONREAD, &available) != 0) return;
  auto left = static_cast<std::size_t>(std::max(available, 0));
  while (left > 0) {
    std::size_t bytes = 0;
    const auto outcome = read(proc, pipe, left, bytes);
    if (outcome == Outcome::end) end(proc, pipe);
    if (outcome != Outcome::some) return;
    left -= bytes;
  }
}

void OutputReader::drain(Proc& proc) {
  take_available(proc, proc.out);
  take_available(proc, proc.err);
}

void OutputReader::finish(Proc& proc) {
  for (OutputPipe* pipe : {&proc.out, &proc.err}) {
    std::size_t left = kLargestPipe;
    while (pipe->fd && left > 0) {
      std::size_t bytes = 0;
      const auto outcome = read(proc, *pipe, left, bytes);
      if (outcome == Outcome::end) end(proc, *pipe);
      if (outcome == Outcome::nothing_now) break;
      left -= bytes;
    }
  }
}

void OutputReader::end(Proc& proc, OutputPipe& pipe) {
  reactor_.forget(pipe.fd.get());
  pipe.fd.reset();
  pipe.paused = false;
  if (proc.mesh.relaying) proc.mesh.relay.end_stream(proc.rank(), pipe.stream);
  mark_ended(proc, pipe);
  if (!proc.out.fd && !proc.err.fd) close(proc);
}

void OutputReader::close(Proc& proc) {
  if (proc.output_ended) return;
  proc.output_ended = true;
  for (OutputPipe* pipe : {&proc.out, &proc.err}) {
    if (pipe->fd) {
      reactor_.forget(pipe->fd.get());
      pipe->fd.reset();
      pipe->paused = false;
    }
    mark_ended(proc, *pipe);
  }
  if (proc.mesh.relaying) proc.mesh.relay.end_rank(proc.rank());
}

void OutputReader::mark_ended(Proc& proc, OutputPipe& pipe) {
  pipe.at.ended = true;
  if (pipe.file) pipe.file->close();
  if (proc.mesh.log_readers != 0) events_.on_news(proc, pipe);
}

void OutputReader::resume(Mesh& mesh) {
  // A few at a time, in the order in which they had to wait: each may fill a quarter of what the
  // owner takes ahead.
  for (int i = 0;
       i < kResumedAtOnce && !mesh.paused.empty() && (!mesh.relaying || mesh.relay.wants_more());
       ++i) {
    const auto [rank, stream] = mesh.paused.front();
    mesh.paused.pop_front();
    const auto found = mesh.procs.find(rank);
    if (found == mesh.procs.end()) continue;
    OutputPipe& pipe = stream == wire::Stream::out ? found->second->out : found->second->err;
    if (pipe.paused) watch(*found->second, pipe);
  }
}

void OutputReader::stop_relaying(Mesh& mesh) {
  mesh.relaying = false;
  mesh.relay = OutputRelay();
  while (!mesh.paused.empty()) resume(mesh);
}

}  // namespace meshbus::host
