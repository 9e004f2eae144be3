#include "agent/host/output/output_reader.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "wire/logs_generated.h"

namespace meshbus::host {
namespace {

/// The most that a pipe can hold for an ordinary user (/proc/sys/fs/pipe-max-size): finish() reads
/// no more.
constexpr std::size_t kLargestPipe = 1024 * 1024;
constexpr int kResumedAtOnce = 8;
constexpr std::size_t kTailBytes = LineTail::Limits().max_bytes;

}  // namespace

void OutputReader::attach(Proc& proc, UniqueFd out, UniqueFd err) {
  proc.output.out.fd = std::move(out);
  proc.output.err.fd = std::move(err);
  for (OutputPipe* pipe : proc.output.pipes()) {
    if (!pipe->fd) continue;
    // An earlier incarnation has left files, which go on.
    const bool has_files = pipe->before.file != 0 && !pipe->file;
    keep_file(
        proc, *pipe,
        has_files ? LogFile::find_parts(proc.mesh.output.log_directory) : LogFile::PartsByName());
    watch(proc, *pipe);
  }
  if (!proc.output.out.fd && !proc.output.err.fd) close(proc);
}

void OutputReader::take_over(Proc& proc, const LogFile::PartsByName& parts) {
  const auto slot = proc.output.slot;
  spool_.keep_slot(slot);
  for (OutputPipe* pipe : proc.output.pipes()) {
    StreamOffsets& at = pipe->at;
    if (slot != 0) {
      at.read = pipe->before.read + spool_.written(slot, pipe->stream);
      if (const auto file = spool_.file(slot, pipe->stream); file != 0)
        at.file = pipe->before.read + file;
    }
    const std::string kept = spool_.text(slot, pipe->stream, 0);
    pipe->tail.start_at(at.read - kept.size());
    pipe->tail.append(kept);
    if (at.read != 0) keep_file(proc, *pipe, parts);
    // The file may lack what was read last; what is in it already is not written twice.
    if (pipe->file && !kept.empty()) pipe->file->append(at.read - kept.size(), kept);
    if (proc.mesh.output.is_relaying) restore_relay(proc, *pipe, kept);
    if (!proc.exit.is_reported()) continue;
    at.ended = true;
    pipe->tail.shrink(ProcOutput::kKeptAfterEnd);
    if (pipe->file) pipe->file->close();
  }
  if (!proc.exit.is_reported()) return;
  proc.output.is_ended = true;
  if (proc.mesh.output.is_relaying) proc.mesh.output.relay.end_rank(proc.rank());
}

void OutputReader::restore_relay(Proc& proc, OutputPipe& pipe, Bytes kept) {
  // Without a slot the owner has taken all.
  const auto slot = proc.output.slot;
  const auto taken =
      slot == 0 ? pipe.at.read : pipe.before.read + spool_.released(slot, pipe.stream);
  OutputRelay& relay = proc.mesh.output.relay;
  relay.restore(proc.rank(), pipe.stream, taken);
  const auto untaken = std::min<std::size_t>(kept.size(), pipe.at.read - taken);
  relay.add(proc.rank(), pipe.stream, kept.substr(kept.size() - untaken));
}

void OutputReader::keep_file(Proc& proc, OutputPipe& pipe, const LogFile::PartsByName& parts) {
  const auto& directory = proc.mesh.output.log_directory;
  if (directory.empty() || pipe.file) return;
  const auto name =
      std::to_string(proc.rank()) + (pipe.stream == wire::Stream::out ? ".out" : ".err");
  const auto on_begun = [this, &proc, &pipe](std::uint64_t begin) {
    pipe.at.file = begin + 1;
    spool_.set_file(proc.output.slot, pipe.stream, pipe.at.file - pipe.before.read);
  };
  pipe.file = std::make_unique<LogFile>(directory + "/" + name, file_limits_, on_begun);
  if (pipe.at.file == 0) return;
  const auto found = parts.find(name);
  pipe.file->resume(pipe.at.file - 1,
                    found == parts.end() ? std::deque<LogFile::Part>() : found->second);
}

void OutputReader::watch(Proc& proc, OutputPipe& pipe) {
  pipe.is_paused = false;
  reactor_.watch(pipe.fd.get(), EPOLLIN,
                 [this, &proc, &pipe](std::uint32_t) { on_readable(proc, pipe); });
}

void OutputReader::on_readable(Proc& proc, OutputPipe& pipe) {
  MeshOutput& output = proc.mesh.output;
  if (output.is_relaying && !output.relay.wants_more()) {
    // Not watched at all, because a pipe that is at its end is always ready.
    reactor_.forget(pipe.fd.get());
    pipe.is_paused = true;
    output.paused.emplace_back(proc.rank(), pipe.stream);
    return;
  }
  std::size_t bytes = 0;
  if (read(proc, pipe, buffer_.size(), bytes) == Outcome::end) end(proc, pipe);
}

OutputReader::Outcome OutputReader::read(Proc& proc, OutputPipe& pipe, std::size_t most,
                                         std::size_t& bytes) {
  const ssize_t got = spool_.read(proc.output.slot, pipe.stream, pipe.fd.get(), buffer_.data(),
                                  std::min(most, buffer_.size()));
  bytes = got > 0 ? static_cast<std::size_t>(got) : 0;
  if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? Outcome::nothing_now : Outcome::end;
  if (got == 0) return Outcome::end;
  const Bytes taken(buffer_.data(), bytes);
  MeshOutput& output = proc.mesh.output;
  if (output.log_readers != 0 && output.unflushed + bytes > kTailBytes) follower_.flush(proc.mesh);
  if (pipe.file) pipe.file->append(pipe.at.read, taken);
  pipe.at.read += bytes;
  pipe.tail.append(taken);
  if (output.is_relaying) {
    output.relay.add(proc.rank(), pipe.stream, taken);
  } else {
    spool_.release_all(proc.output.slot, pipe.stream);
  }
  if (output.log_readers != 0) {
    output.unflushed += bytes;
    follower_.on_output(proc, pipe);
  }
  return Outcome::some;
}

void OutputReader::read_available(Proc& proc, OutputPipe& pipe) {
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

void OutputReader::read_rest(Proc& proc) {
  for (OutputPipe* pipe : proc.output.pipes()) read_available(proc, *pipe);
}

void OutputReader::finish(Proc& proc) {
  for (OutputPipe* pipe : proc.output.pipes()) {
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

void OutputReader::close_pipe(OutputPipe& pipe) {
  if (!pipe.fd) return;
  reactor_.forget(pipe.fd.get());
  pipe.fd.reset();
  pipe.is_paused = false;
}

void OutputReader::end(Proc& proc, OutputPipe& pipe) {
  close_pipe(pipe);
  if (proc.mesh.output.is_relaying) proc.mesh.output.relay.end_stream(proc.rank(), pipe.stream);
  mark_ended(proc, pipe);
  if (!proc.output.out.fd && !proc.output.err.fd) close(proc);
}

void OutputReader::close(Proc& proc) {
  if (proc.output.is_ended) return;
  proc.output.is_ended = true;
  for (OutputPipe* pipe : proc.output.pipes()) {
    close_pipe(*pipe);
    mark_ended(proc, *pipe);
  }
  if (proc.mesh.output.is_relaying) proc.mesh.output.relay.end_rank(proc.rank());
}

void OutputReader::mark_ended(Proc& proc, OutputPipe& pipe) {
  pipe.at.ended = true;
  if (pipe.file) pipe.file->close();
  if (proc.mesh.output.log_readers != 0) follower_.on_output(proc, pipe);
}

void OutputReader::start_relaying(Mesh& mesh) {
  mesh.output.is_relaying = true;
  relaying_.insert(&mesh);
}

void OutputReader::continue_relay(Proc& proc) {
  if (!proc.mesh.output.is_relaying) return;
  for (const OutputPipe* pipe : proc.output.pipes())
    proc.mesh.output.relay.restore(proc.rank(), pipe->stream, pipe->before.read);
}

void OutputReader::on_taken(Mesh& mesh, const wire::OutputTaken& taken) {
  OutputRelay& relay = mesh.output.relay;
  if (taken.positions() == nullptr && taken.ended() == nullptr) relay.taken(taken.bytes());
  if (taken.positions() != nullptr) {
    for (const auto* position : *taken.positions())
      relay.taken(position->rank(), position->stream(), position->offset());
  }
  if (taken.ended() != nullptr) {
    for (const auto rank : *taken.ended()) relay.end_known(rank);
  }
  if (taken.resend()) relay.resend();
  for (const auto& progress : relay.take_progress()) {
    Proc* proc = mesh.find(progress.rank);
    if (proc == nullptr) continue;
    const auto before = proc->output.pipe(progress.stream).before.read;
    spool_.release(proc->output.slot, progress.stream,
                   progress.taken - std::min(progress.taken, before));
    slots_.release_if_done(*proc);
  }
}

void OutputReader::stop_relaying(Mesh& mesh) {
  mesh.output.is_relaying = false;
  mesh.output.relay = OutputRelay();
  while (!mesh.output.paused.empty()) resume(mesh);
  relaying_.erase(&mesh);
  for (const auto& [rank, proc] : mesh.procs) slots_.release_if_done(*proc);
}

void OutputReader::forget(Mesh& mesh) {
  relaying_.erase(&mesh);
  for (const auto& [rank, proc] : mesh.procs) slots_.release(*proc);
}

std::vector<Mesh*> OutputReader::resume() {
  std::vector<Mesh*> ready;
  for (Mesh* mesh : relaying_) {
    resume(*mesh);
    if (mesh->output.relay.has_items()) ready.push_back(mesh);
  }
  return ready;
}

void OutputReader::resume(Mesh& mesh) {
  MeshOutput& output = mesh.output;
  // A few at a time, in the order in which they had to wait: each may fill a quarter of what the
  // owner takes ahead.
  for (int i = 0; i < kResumedAtOnce && !output.paused.empty() &&
                  (!output.is_relaying || output.relay.wants_more());
       ++i) {
    const auto [rank, stream] = output.paused.front();
    output.paused.pop_front();
    Proc* proc = mesh.find(rank);
    if (proc == nullptr) continue;
    OutputPipe& pipe = proc->output.pipe(stream);
    if (pipe.is_paused) watch(*proc, pipe);
  }
}

}  // namespace meshbus::host
