#include "agent/host/output/log_streams.h"

#include <algorithm>
#include <array>

#include "common/base/log.h"
#include "wire/frame_generated.h"
#include "wire/logs_generated.h"

namespace meshbus::host {
namespace {

constexpr std::size_t kLeastWindow = 4 * 1024;
constexpr std::size_t kUsualWindow = 256 * 1024;
constexpr std::size_t kMostWindow = 1024 * 1024;
/// How much of files one request may read to find where lines begin, and at least of each stream.
constexpr std::size_t kAllLookBack = 64 * 1024 * 1024;
constexpr std::size_t kLeastLookBack = 16 * 1024;
/// Offsets of all readers of one mesh: each reader has two for every rank.
constexpr std::size_t kMostOffsets = 1'000'000;
/// From a message that came back to the next attempt.
constexpr std::chrono::milliseconds kRetryAfter{300};

const std::array kStreams = {wire::Stream::out, wire::Stream::err};

bool is_wanted(std::uint8_t streams, wire::Stream stream) {
  return streams == 0 || (streams & (stream == wire::Stream::out ? 1 : 2)) != 0;
}

/// What a mesh has kept: the tails in memory, and in front of them the files.
class MeshSource : public LogSource {
 public:
  explicit MeshSource(Mesh& mesh) : mesh_(mesh) {}

  Piece read(const StreamId& stream, std::uint64_t offset, std::size_t most) override {
    const OutputPipe& pipe = find(stream);
    if (offset < pipe.tail.begin() && pipe.file) {
      auto piece = pipe.file->read(offset, most);
      if (!piece.bytes.empty() && piece.offset < pipe.tail.begin())
        return {piece.offset, std::move(piece.bytes)};
    }
    return {std::max(offset, pipe.tail.begin()),
            std::string(pipe.tail.from(offset).substr(0, most))};
  }
  std::uint64_t end(const StreamId& stream) override { return find(stream).tail.end(); }
  bool is_ended(const StreamId& stream) override { return find(stream).at.ended; }

 private:
  OutputPipe& find(const StreamId& stream) {
    return mesh_.procs.at(stream.first)->output.pipe(stream.second);
  }

  Mesh& mesh_;
};

std::uint64_t first_offset(const OutputPipe& pipe, std::uint64_t lines, std::size_t look_back) {
  std::uint64_t missing = 0;
  const auto offset = pipe.tail.offset_of_last(lines, &missing);
  if (missing == 0 || !pipe.file || pipe.file->end() <= pipe.file->begin()) return offset;
  if (lines == UINT64_MAX) return std::min(pipe.file->begin(), offset);
  // Files are exact up to where the tail begins, unless they could not be written.
  return pipe.file->end() < offset ? offset : pipe.file->offset_of_last(missing, offset, look_back);
}

}  // namespace

LogStreams::~LogStreams() {
  for (const auto& [mesh, entries] : readers_) {
    for (const auto& entry : entries) bus_.reactor().cancel(entry->retry);
    mesh->output.log_readers = 0;
  }
}

Result<wire::LogStartedT> LogStreams::start(Mesh& mesh, const ProcId& subscriber,
                                            const wire::StreamLogs& request) {
  auto ranks = parse_ranks(request.ranks(), UINT64_MAX, "StreamLogs.ranks");
  if (!ranks) return fail(ranks.error());
  for (const RankBlock& block : *ranks) {
    auto expected = block.begin;
    for (auto at = mesh.procs.lower_bound(block.begin);
         at != mesh.procs.end() && at->first < block.end && at->first == expected; ++at)
      ++expected;
    if (expected != block.end)
      return fail(ErrorCode::not_exist, "mesh " + mesh.name + " has no rank " +
                                            std::to_string(expected) + " on this host");
  }
  const auto key = subscriber.key();
  erase_if(mesh, [&](const Entry& entry) {
    return entry.key == key && entry.stream == request.stream();
  });
  if (mesh.output.log_readers >= kMostReaders ||
      (mesh.output.log_readers + 1) * mesh.procs.size() > kMostOffsets)
    return fail(ErrorCode::queue_full, "mesh " + mesh.name + " has " +
                                           std::to_string(mesh.output.log_readers) +
                                           " readers of its output already");

  const std::size_t window =
      request.window() == 0 ? kUsualWindow
                            : std::clamp<std::size_t>(request.window(), kLeastWindow, kMostWindow);
  auto entry = std::make_unique<Entry>(Entry{
      .subscriber = subscriber,
      .key = key,
      .stream = request.stream(),
      .ranks = std::move(*ranks),
      .streams = request.streams(),
      .tail = request.tail(),
      .reader =
          LogReader({.stream = request.stream(), .follow = request.follow(), .window = window})});
  std::map<StreamId, std::uint64_t> from;
  if (request.from() != nullptr) {
    for (const auto* position : *request.from())
      from.insert_or_assign({position->rank(), position->stream()}, position->offset());
  }
  // Files are read now, in this turn: for many ranks less of each.
  const std::size_t look_back =
      std::clamp(kAllLookBack / std::max<std::size_t>(2 * mesh.procs.size(), 1), kLeastLookBack,
                 LogFile::kLookBack);
  MeshSource source(mesh);
  wire::LogStartedT started;
  for (const auto& [rank, proc] : mesh.procs) {
    if (!entry->ranks.empty() && !contains(entry->ranks, rank)) continue;
    if (!started.ranks.empty() && started.ranks.back().end() == rank) {
      started.ranks.back().mutate_end(rank + 1);
    } else {
      started.ranks.emplace_back(rank, rank + 1);
    }
    for (const auto stream : kStreams) {
      if (!is_wanted(entry->streams, stream)) continue;
      const OutputPipe& pipe = proc->output.pipe(stream);
      const auto found = from.find({rank, stream});
      const auto offset = found == from.end() ? first_offset(pipe, entry->tail, look_back)
                                              : std::min(found->second, pipe.tail.end());
      entry->reader.add({rank, stream}, offset, source);
      if (offset != 0) started.positions.emplace_back(rank, offset, stream);
    }
  }
  readers_[&mesh].push_back(std::move(entry));
  ++mesh.output.log_readers;
  mark(mesh);
  return started;
}

Result<void> LogStreams::taken(Mesh& mesh, std::uint64_t subscriber, const wire::LogTaken& taken) {
  if (const auto found = readers_.find(&mesh); found != readers_.end()) {
    for (const auto& entry : found->second) {
      if (entry->key != subscriber || entry->stream != taken.stream()) continue;
      entry->reader.taken(taken.sequence());
      if (taken.resend()) entry->reader.rewind();
      if (entry->reader.is_done()) {
        stop(mesh, subscriber, taken.stream());
      } else {
        mark(mesh);
      }
      return {};
    }
  }
  return fail(ErrorCode::not_exist, "mesh " + mesh.name + " has no reader " +
                                        std::to_string(taken.stream()) + " of that subscriber");
}

void LogStreams::stop(Mesh& mesh, std::uint64_t subscriber, std::uint64_t stream) {
  erase_if(mesh,
           [&](const Entry& entry) { return entry.key == subscriber && entry.stream == stream; });
}

void LogStreams::drop(const ProcId& subscriber) {
  std::vector<Mesh*> meshes;
  for (const auto& [mesh, entries] : readers_) meshes.push_back(mesh);
  for (Mesh* mesh : meshes)
    erase_if(*mesh, [&](const Entry& entry) { return entry.subscriber == subscriber; });
}

bool LogStreams::has(const ProcId& subscriber) const {
  return std::any_of(readers_.begin(), readers_.end(), [&](const auto& mesh) {
    return std::any_of(mesh.second.begin(), mesh.second.end(),
                       [&](const auto& entry) { return entry->subscriber == subscriber; });
  });
}

void LogStreams::erase_if(Mesh& mesh, const std::function<bool(const Entry&)>& condition) {
  const auto found = readers_.find(&mesh);
  if (found == readers_.end()) return;
  mesh.output.log_readers -= std::erase_if(found->second, [&](const auto& entry) {
    if (!condition(*entry)) return false;
    bus_.reactor().cancel(entry->retry);
    return true;
  });
  if (!found->second.empty()) return;
  readers_.erase(found);
  marked_.erase(&mesh);
  for (const auto& [rank, proc] : mesh.procs) {
    if (proc->exit.is_reported()) proc->output.shrink(ProcOutput::kKeptAfterEnd);
  }
}

void LogStreams::forget(Mesh& mesh) {
  erase_if(mesh, [](const Entry&) { return true; });
}

std::optional<ProcId> LogStreams::on_undeliverable(std::uint64_t subscriber) {
  std::optional<ProcId> reader;
  for (const auto& [mesh, entries] : readers_) {
    for (const auto& entry : entries) {
      if (entry->key != subscriber) continue;
      reader = entry->subscriber;
      rewind_later(*mesh, *entry);
    }
  }
  return reader;
}

void LogStreams::rewind_later(Mesh& mesh, Entry& entry) {
  if (entry.retry != 0) return;
  entry.retry = bus_.reactor().after(kRetryAfter, [this, &mesh, &entry] {
    entry.retry = 0;
    entry.reader.rewind();
    mark(mesh);
  });
}

void LogStreams::on_up() {
  for (const auto& [mesh, entries] : readers_) {
    for (const auto& entry : entries) entry->reader.rewind();
    mark(*mesh);
  }
}

void LogStreams::on_output(Proc& proc, OutputPipe& pipe) {
  const auto found = readers_.find(&proc.mesh);
  if (found == readers_.end()) return;
  const StreamId stream{proc.rank(), pipe.stream};
  for (const auto& entry : found->second) {
    if (entry->reader.has(stream)) {
      entry->reader.on_output(stream);
    } else if (entry->reader.follows() && is_wanted(entry->streams, pipe.stream) &&
               entry->ranks.empty()) {
      // The rank was started after this reader came: it reads all of it.
      MeshSource source(proc.mesh);
      entry->reader.add(stream, 0, source);
    }
  }
  mark(proc.mesh);
}

void LogStreams::flush() {
  // Sending marks nothing.
  for (Mesh* mesh : std::exchange(marked_, {})) flush(*mesh);
}

void LogStreams::flush(Mesh& mesh) {
  mesh.output.unflushed = 0;
  const auto found = readers_.find(&mesh);
  if (found == readers_.end() || !bus_.is_up()) return;
  for (const auto& entry : found->second) send(mesh, *entry);
}

void LogStreams::send(Mesh& mesh, Entry& entry) {
  if (entry.retry != 0) return;
  MeshSource source(mesh);
  const bool is_last = !entry.reader.follows() ||
                       (!mesh.ownership.may_restart() && (!entry.ranks.empty() || mesh.live == 0));
  while (auto log = entry.reader.next(source, is_last)) {
    log->mesh = mesh.name;
    if (bus_.tell(Destination::to(entry.subscriber), std::move(*log), wire::Lane::data)) continue;
    return rewind_later(mesh, entry);
  }
}

}  // namespace meshbus::host
