#include "common/wire/wire_values.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/wire/wire_region.h"
#include "wire/values_generated.h"

namespace meshbus {
namespace {

static_assert(static_cast<int>(wire::StatusKind::MAX) == static_cast<int>(Status::Kind::timeout),
              "values.fbs and meshbus/status.h list the same kinds");
static_assert(static_cast<int>(wire::StatusKind::running) ==
              static_cast<int>(Status::Kind::running));
static_assert(static_cast<int>(wire::StatusKind::failed) == static_cast<int>(Status::Kind::failed));

constexpr std::size_t kNarrow = 256;  // different values that a byte can number

tl::unexpected<Error> malformed(std::string detail) {
  return fail(ErrorCode::malformed_message, std::move(detail));
}

/// Counts the bytes of texts as they are copied.
class Budget {
 public:
  explicit Budget(std::size_t bytes) : left_(bytes) {}
  bool take(std::size_t bytes) {
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }

 private:
  std::size_t left_;
};

/// Numbers different statuses as they come, by their address: that is cheaper than to compare them.
class StatusTable {
 public:
  std::uint32_t index_of(const Status& status) {
    const auto [found, is_new] =
        by_address_.try_emplace(&status, static_cast<std::uint32_t>(by_address_.size()));
    if (is_new) values.push_back(std::make_unique<wire::StatusT>(to_wire(status)));
    return found->second;
  }

  std::vector<std::unique_ptr<wire::StatusT>> values;

 private:
  std::unordered_map<const Status*, std::uint32_t> by_address_;
};

Result<std::vector<Status>> statuses_of(
    const flatbuffers::Vector<flatbuffers::Offset<wire::Status>>& table, Budget& budget) {
  std::vector<Status> values;
  values.reserve(table.size());
  for (const auto* status : table) {
    if (status->reason() != nullptr && !budget.take(status->reason()->size()))
      return malformed("statuses: reasons that are longer than the whole message");
    values.push_back(from_wire(*status));
  }
  return values;
}

/// Whether an interval may come after one that ends at `last`.
Result<void> check_interval(std::uint64_t begin, std::uint64_t end, std::uint64_t last) {
  if (begin < end && begin >= last) return {};
  return malformed("ranks " + std::to_string(begin) + ".." + std::to_string(end) +
                   ": intervals must be ascending, not empty and without overlap");
}

Result<StatusOverlay> runs_of(const flatbuffers::Vector<const wire::RankRun*>* runs,
                              const std::vector<Status>& values) {
  std::vector<StatusOverlay::Run> out;
  if (runs == nullptr) return StatusOverlay();
  out.reserve(runs->size());
  std::uint64_t last = 0;
  for (const auto* run : *runs) {
    if (Result<void> fits = check_interval(run->begin(), run->end(), last); !fits)
      return fail(fits.error().within("statuses"));
    if (run->value() >= values.size())
      return malformed("statuses: value " + std::to_string(run->value()) + " of " +
                       std::to_string(values.size()));
    last = run->end();
    append_run(out, run->begin(), run->end(), values[run->value()]);
  }
  return StatusOverlay::of(std::move(out));
}

template <typename Cell>
Result<StatusMesh> mesh_of_cells(Region region, const flatbuffers::Vector<Cell>& cells,
                                 const std::vector<Status>& values) {
  if (cells.size() != region.num_ranks())
    return malformed("status mesh: expected " + std::to_string(region.num_ranks()) +
                     " cells, found " + std::to_string(cells.size()));
  StatusMesh mesh(std::move(region), values.empty() ? Status() : values[0]);
  const Cell* const data = cells.data();
  for (std::uint64_t begin = 0, end = 0; begin < cells.size(); begin = end) {
    const Cell cell = data[begin];
    if (cell >= values.size())
      return malformed("status mesh: value " + std::to_string(cell) + " of " +
                       std::to_string(values.size()));
    for (end = begin + 1; end < cells.size() && data[end] == cell;) ++end;
    if (auto done = mesh.set(begin, end, values[cell]); !done) return fail(done.error());
  }
  return mesh;
}

template <typename Native>
std::string pack(const Native& native) {
  flatbuffers::FlatBufferBuilder builder(256);
  builder.Finish(Native::TableType::Pack(builder, &native));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

/// Copies for the alignment, verifies, and reads.
template <typename Table>
auto unpack(Bytes bytes, std::string_view what)
    -> decltype(from_wire(std::declval<const Table&>(), bytes.size())) {
  const auto aligned = std::make_unique<std::uint64_t[]>(bytes.size() / sizeof(std::uint64_t) + 1);
  std::memcpy(aligned.get(), bytes.data(), bytes.size());
  const auto* const data = reinterpret_cast<const std::uint8_t*>(aligned.get());
  flatbuffers::Verifier verifier(data, bytes.size(), /*max_depth=*/16);
  if (bytes.size() < 8 || !verifier.VerifyBuffer<Table>(nullptr))
    return malformed("not a " + std::string(what) + " (" + std::to_string(bytes.size()) +
                     " bytes)");
  return from_wire(*flatbuffers::GetRoot<Table>(data), bytes.size());
}

Result<ReplyValue> value_of(const wire::ReplyValue& value, std::size_t message_size) {
  const auto missing = [] { return malformed("reply: a value of which the field is missing"); };
  switch (value.kind()) {
    case wire::ReplyKind::boolean: return value.integer() != 0;
    case wire::ReplyKind::integer: return value.integer();
    case wire::ReplyKind::number: return value.number();
    case wire::ReplyKind::blob:
      if (value.blob() == nullptr) return std::string();
      return std::string(value.blob()->begin(), value.blob()->end());
    case wire::ReplyKind::statuses: {
      if (value.statuses() == nullptr) return missing();
      auto statuses = from_wire(*value.statuses(), message_size);
      if (!statuses) return fail(std::move(statuses).error());
      return std::move(*statuses);
    }
    case wire::ReplyKind::overlay: {
      if (value.overlay() == nullptr) return missing();
      auto overlay = from_wire(*value.overlay(), message_size);
      if (!overlay) return fail(std::move(overlay).error());
      return std::move(*overlay);
    }
    default:
      return malformed("reply: a value of unknown kind " +
                       std::to_string(static_cast<int>(value.kind())));
  }
}

/// Fills in a reply, one function per kind.
struct ReplyWriter {
  wire::ReplyValueT& out;
  void operator()(bool value) const {
    out.kind = wire::ReplyKind::boolean, out.integer = value ? 1 : 0;
  }
  void operator()(std::int64_t value) const {
    out.kind = wire::ReplyKind::integer, out.integer = value;
  }
  void operator()(double value) const { out.kind = wire::ReplyKind::number, out.number = value; }
  void operator()(const std::string& value) const {
    out.kind = wire::ReplyKind::blob, out.blob = to_vector(value);
  }
  void operator()(const StatusOverlay& value) const {
    out.kind = wire::ReplyKind::statuses,
    out.statuses = std::make_unique<wire::StatusOverlayT>(to_wire(value));
  }
  void operator()(const TextOverlay& value) const {
    out.kind = wire::ReplyKind::overlay,
    out.overlay = std::make_unique<wire::BlobOverlayT>(to_wire(value));
  }
};

}  // namespace

wire::StatusT to_wire(const Status& status) {
  wire::StatusT out;
  out.kind = static_cast<wire::StatusKind>(status.kind());
  out.reason = status.reason();
  out.timeout_ms = static_cast<std::uint64_t>(status.duration().count());
  return out;
}

Status from_wire(const wire::Status& status) {
  switch (const auto kind = static_cast<Status::Kind>(status.kind())) {
    case Status::Kind::failed:
      return Status::failed(status.reason() == nullptr ? std::string() : status.reason()->str());
    case Status::Kind::timeout: {
      constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
      return Status::timeout(std::chrono::milliseconds(
          static_cast<std::int64_t>(std::min(status.timeout_ms(), most))));
    }
    default: return kind;
  }
}

wire::StatusOverlayT to_wire(const StatusOverlay& statuses) {
  wire::StatusOverlayT out;
  // Runs own their statuses: equal ones have to be found by value.
  std::map<Status, std::uint32_t> index;
  out.runs.reserve(statuses.runs().size());
  for (const auto& [begin, end, status] : statuses.runs()) {
    const auto [found, is_new] =
        index.try_emplace(status, static_cast<std::uint32_t>(index.size()));
    if (is_new) out.values.push_back(std::make_unique<wire::StatusT>(to_wire(status)));
    out.runs.emplace_back(begin, end, found->second, 0);
  }
  return out;
}

Result<StatusOverlay> from_wire(const wire::StatusOverlay& statuses, std::size_t message_size) {
  Budget budget(message_size);
  const auto values = statuses_of(*statuses.values(), budget);
  if (!values) return fail(values.error());
  return runs_of(statuses.runs(), *values);
}

wire::StatusMeshT to_wire(const StatusMesh& mesh) {
  wire::StatusMeshT out;
  out.region = to_wire(mesh.region());
  StatusTable table;
  std::uint64_t different = 0;
  mesh.count_if([&](const Status&) { return ++different != 0; });
  const std::size_t cell = different <= kNarrow ? sizeof(std::uint8_t) : sizeof(std::uint32_t);
  if (mesh.num_runs() < mesh.num_ranks() / (sizeof(wire::RankRun) / cell)) {
    out.runs.reserve(mesh.num_runs());
    mesh.for_each_run([&](std::uint64_t begin, std::uint64_t end, const Status& status) {
      out.runs.emplace_back(begin, end, table.index_of(status), 0);
    });
  } else if (cell == 1) {
    out.cells.reserve(mesh.num_ranks());
    mesh.for_each_run([&](std::uint64_t begin, std::uint64_t end, const Status& status) {
      out.cells.insert(out.cells.end(), end - begin,
                       static_cast<std::uint8_t>(table.index_of(status)));
    });
  } else {
    out.wide_cells.reserve(mesh.num_ranks());
    mesh.for_each_run([&](std::uint64_t begin, std::uint64_t end, const Status& status) {
      out.wide_cells.insert(out.wide_cells.end(), end - begin, table.index_of(status));
    });
  }
  out.values = std::move(table.values);
  return out;
}

Result<StatusMesh> from_wire(const wire::StatusMesh& mesh, std::size_t message_size) {
  auto region = from_wire(mesh.region());
  if (!region) return malformed("status mesh: " + region.error().detail());
  Budget budget(message_size);
  const auto values = statuses_of(*mesh.values(), budget);
  if (!values) return fail(values.error().within("status mesh"));
  if (mesh.cells() != nullptr) return mesh_of_cells(std::move(*region), *mesh.cells(), *values);
  if (mesh.wide_cells() != nullptr)
    return mesh_of_cells(std::move(*region), *mesh.wide_cells(), *values);
  const auto runs = runs_of(mesh.runs(), *values);
  if (!runs) return fail(runs.error().within("status mesh"));
  auto made = StatusMesh::make(std::move(*region), *runs);
  if (!made) return malformed("status mesh: " + made.error().detail());
  return made;
}

wire::BlobOverlayT to_wire(const TextOverlay& overlay) {
  wire::BlobOverlayT out;
  for (const auto& [begin, end, value] : overlay.runs()) {
    out.ranks.emplace_back(begin, end);
    out.values.push_back(std::make_unique<wire::BlobT>());
    out.values.back()->data = to_vector(value);
  }
  return out;
}

Result<TextOverlay> from_wire(const wire::BlobOverlay& overlay, std::size_t message_size) {
  const std::size_t count = overlay.ranks() == nullptr ? 0 : overlay.ranks()->size();
  if (count != (overlay.values() == nullptr ? 0 : overlay.values()->size()))
    return malformed("overlay: not as many values as intervals of ranks");
  Budget budget(message_size);
  std::vector<TextOverlay::Run> runs;
  runs.reserve(count);
  std::uint64_t last = 0;
  for (flatbuffers::uoffset_t i = 0; i < count; ++i) {
    const auto& ranks = *overlay.ranks()->Get(i);
    const auto* const data = overlay.values()->Get(i)->data();
    if (Result<void> fits = check_interval(ranks.begin(), ranks.end(), last); !fits)
      return fail(fits.error().within("overlay"));
    if (data != nullptr && !budget.take(data->size()))
      return malformed("overlay: values that are longer than the whole message");
    last = ranks.end();
    append_run(runs, ranks.begin(), ranks.end(),
               data == nullptr ? std::string() : std::string(data->begin(), data->end()));
  }
  return TextOverlay::of(std::move(runs));
}

wire::PartialReplyT to_wire(const Partial& partial) {
  wire::PartialReplyT out;
  out.value = std::make_unique<wire::ReplyValueT>();
  std::visit(ReplyWriter{*out.value}, partial.value);
  for (const auto& run : partial.ranks.runs()) out.ranks.emplace_back(run.begin, run.end);
  return out;
}

Result<Partial> from_wire(const wire::PartialReply& partial, std::size_t message_size) {
  auto value = value_of(*partial.value(), message_size);
  if (!value) return fail(std::move(value).error());
  std::vector<RankRun<bool>> ranks;
  std::uint64_t last = 0;
  if (partial.ranks() != nullptr) {
    for (const auto* interval : *partial.ranks()) {
      if (Result<void> fits = check_interval(interval->begin(), interval->end(), last); !fits)
        return fail(fits.error().within("reply"));
      last = interval->end();
      append_run(ranks, interval->begin(), interval->end(), true);
    }
  }
  return Partial{std::move(*value), Overlay<bool>::of(std::move(ranks)), false};
}

std::string encode(const StatusOverlay& statuses) {
  return pack(to_wire(statuses));
}
std::string encode(const StatusMesh& mesh) {
  return pack(to_wire(mesh));
}
std::string encode(const Partial& partial) {
  return pack(to_wire(partial));
}

Result<StatusOverlay> decode_statuses(Bytes bytes) {
  return unpack<wire::StatusOverlay>(bytes, "StatusOverlay");
}
Result<StatusMesh> decode_status_mesh(Bytes bytes) {
  return unpack<wire::StatusMesh>(bytes, "StatusMesh");
}
Result<Partial> decode_partial(Bytes bytes) {
  return unpack<wire::PartialReply>(bytes, "PartialReply");
}

}  // namespace meshbus
