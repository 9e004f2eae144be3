#include "common/bus/cast.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/wire/frame.h"
#include "common/wire/wire_region.h"
#include "wire/bus_generated.h"

namespace meshbus {
namespace {

/// The runs of one host, as ranks are added in the order of their ordinals.
struct HostRuns {
  std::vector<wire::CastRun> runs;
  std::vector<std::vector<std::uint64_t>> ordinals;  // of each run

  void add(std::uint64_t host, std::uint64_t rank, std::uint64_t ordinal) {
    if (runs.empty() || !extend(runs.back(), rank)) {
      runs.emplace_back(host, rank, 1, 1);
      ordinals.emplace_back();
    }
    ordinals.back().push_back(ordinal);
  }

 private:
  static bool extend(wire::CastRun& run, std::uint64_t rank) {
    if (rank <= run.first()) return false;
    if (run.count() == 1) {
      run.mutate_step(rank - run.first());
    } else if (rank != run.first() + run.step() * run.count()) {
      return false;
    }
    run.mutate_count(run.count() + 1);
    return true;
  }
};

/// What a message has room for beside what its pieces begin with, also in a call.
std::size_t room_beside(const std::vector<CastPlan::Piece>& pieces) {
  std::size_t room = kBodyLimit - sizeof(wire::CallHeader);
  for (const auto& piece : pieces)
    room = std::min(
        room, kBodyLimit - std::min(kBodyLimit, piece.front.size() + sizeof(wire::CallHeader)));
  return room;
}

}  // namespace

Result<CastBody> CastBody::open(Bytes body) {
  wire::CastHeader header;
  if (body.size() < sizeof header)
    return fail(ErrorCode::malformed_message, "a cast without its header");
  std::memcpy(&header, body.data(), sizeof header);
  const std::size_t length = header.length();
  if (body.size() - sizeof header < padded(length))
    return fail(ErrorCode::malformed_message, "a cast whose head is cut off");
  auto head = std::make_unique<std::uint64_t[]>(length / sizeof(std::uint64_t) + 1);
  std::memcpy(head.get(), body.data() + sizeof header, length);
  flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(head.get()), length, 8, 64);
  if (!verifier.VerifyBuffer<wire::CastHead>(nullptr))
    return fail(ErrorCode::malformed_message, "a cast whose head is not well-formed");
  const std::size_t front = sizeof header + padded(length);
  return CastBody(std::move(head), body.substr(0, front), body.substr(front));
}

std::string cast_front(std::string_view mesh, const std::vector<wire::CastRun>& runs,
                       const wire::RegionT& view) {
  flatbuffers::FlatBufferBuilder builder(512);
  builder.ForceVectorAlignment(runs.size(), sizeof(wire::CastRun), 8);
  const auto name = mesh.empty() ? flatbuffers::Offset<flatbuffers::String>()
                                 : builder.CreateString(mesh.data(), mesh.size());
  const auto list = runs.empty() ? flatbuffers::Offset<flatbuffers::Vector<const wire::CastRun*>>()
                                 : builder.CreateVectorOfStructs(runs);
  builder.Finish(wire::CreateCastHead(builder, name, list, wire::CreateRegion(builder, &view)));
  const wire::CastHeader header(builder.GetSize(), 0);
  std::string front(sizeof header + padded(builder.GetSize()), '\0');
  std::memcpy(front.data(), &header, sizeof header);
  std::memcpy(front.data() + sizeof header, builder.GetBufferPointer(), builder.GetSize());
  return front;
}

Result<std::shared_ptr<const CastPlan>> CastPlan::make(ProcMeshRef view,
                                                       std::uint64_t without_host) {
  const std::uint64_t ranks = view.num_ranks();
  if (ranks > kMostRanks) {
    return fail(ErrorCode::too_large, "a cast to " + std::to_string(ranks) +
                                          " ranks; the limit is " + std::to_string(kMostRanks) +
                                          ": cast to slices of the mesh");
  }
  CastPlan plan{.view = std::move(view),
                .targets = {},
                .ordinal_of_proc = {},
                .hosts = {},
                .pieces = {},
                .body_limit = 0};
  plan.targets.reserve(ranks);
  plan.ordinal_of_proc.reserve(ranks);
  std::unordered_map<std::uint64_t, HostRuns> runs_of_host;
  std::vector<std::uint64_t> keys(plan.view.hosts().size());
  std::transform(plan.view.hosts().begin(), plan.view.hosts().end(), keys.begin(),
                 [](const HostAddr& host) { return host.key(); });
  std::vector<std::uint64_t> order;  // of hosts, as the ranks come
  for (const std::uint64_t rank : plan.view.region().ranks()) {
    const std::uint64_t index = *plan.view.host_index_of(rank);
    if (without_host != 0 && keys[index] == without_host) continue;
    const std::uint64_t ordinal = plan.targets.size();
    plan.targets.push_back({plan.view.proc_of(rank)->key(), keys[index]});
    plan.ordinal_of_proc.emplace(plan.targets.back().proc, ordinal);
    const auto [runs, is_new] = runs_of_host.try_emplace(keys[index]);
    if (is_new) {
      order.push_back(keys[index]);
      plan.hosts.push_back({0, keys[index], plan.view.hosts()[index].to_string()});
    }
    runs->second.add(keys[index], rank, ordinal);
  }
  const std::string name = plan.view.mesh().to_string();
  const auto region = to_wire(plan.view.region());
  std::vector<wire::CastRun> runs;
  Piece piece;
  const auto finish = [&] {
    if (runs.empty()) return;
    piece.front = cast_front(name, runs, *region);
    plan.pieces.push_back(std::exchange(piece, Piece()));
    runs.clear();
  };
  for (const std::uint64_t host : order) {
    const HostRuns& of_host = runs_of_host.at(host);
    for (std::size_t i = 0; i < of_host.runs.size(); ++i) {
      runs.push_back(of_host.runs[i]);
      piece.ordinals.insert(piece.ordinals.end(), of_host.ordinals[i].begin(),
                            of_host.ordinals[i].end());
      if (runs.size() == kMostRuns) finish();
    }
  }
  finish();
  plan.body_limit = room_beside(plan.pieces);
  return std::make_shared<const CastPlan>(std::move(plan));
}

Result<std::shared_ptr<const CastPlan>> CastPlans::get(const ProcMeshRef& view) {
  if (last_ != nullptr && last_->view == view) return last_;
  auto plan = CastPlan::make(view);
  if (plan) last_ = *plan;
  return plan;
}

CastAnswers::CastAnswers(std::size_t ranks)
    : answers_(ranks,
               fail(ErrorCode::fate_unknown, "this side left the bus before there was an answer")),
      left_(ranks) {}

CastAnswers::~CastAnswers() {
  if (left_ > 0) promise_.set_value(std::move(answers_));
}

void CastAnswers::fill(std::uint64_t ordinal, Result<std::string> answer) {
  answers_[ordinal] = std::move(answer);
  if (--left_ == 0) promise_.set_value(std::move(answers_));
}

}  // namespace meshbus
