#include "agent/host/replies/collections.h"

#include <algorithm>
#include <utility>

#include "agent/host/model/real_time.h"
#include "agent/host/updates/rank_waits.h"
#include "common/base/log.h"
#include "common/base/quantity.h"
#include "common/wire/control.h"
#include "wire/frame_generated.h"
#include "wire/replies_generated.h"

namespace meshbus::host {
namespace {

Error too_many(const std::string& host, std::uint64_t most, const std::string& what) {
  return {ErrorCode::queue_full, "host " + host + " reduces the answers of no more than " +
                                     std::to_string(most) + what + " at a time"};
}

}  // namespace

Collections::Collections(Bus& bus, ProcTable& table, HostAddr host, Events events)
    : bus_(bus), table_(table), host_(std::move(host)), events_(std::move(events)) {}

Collections::~Collections() {
  for (const auto& [ticket, open] : open_) {
    bus_.reactor().cancel(open.limit);
    bus_.reactor().cancel(open.part);
  }
}

void Collections::on_data(const wire::Envelope& envelope, const wire::CallHeader& header,
                          Bytes body) {
  const bool is_call = envelope.kind() == wire::Kind::call;
  const auto port = static_cast<wire::CollectPort>(envelope.port());
  if (is_call && port == wire::CollectPort::collect) {
    if (const auto begun = begin(envelope, header, body); !begun)
      bus_.fail_call(envelope, header, begun.error());
  } else if (!is_call && port == wire::CollectPort::answer) {
    on_answer(envelope, body);
  } else if (!is_call && port == wire::CollectPort::end) {
    on_end(envelope, body);
  } else {
    const Error error(ErrorCode::no_such_port, "the agent of host " + host_.to_string() +
                                                   " does not listen on port " +
                                                   std::to_string(envelope.port()));
    is_call ? bus_.fail_call(envelope, header, error) : bus_.give_back(envelope, error);
  }
}

Result<void> Collections::begin(const wire::Envelope& envelope, const wire::CallHeader& header,
                                Bytes body) {
  if (envelope.role() < Role::proc)
    return fail(ErrorCode::unauthorised, "only who may call procs may have their answers reduced");
  const auto order = decode_collect_order(body);
  if (!order) return fail(order.error());
  const auto asker = ProcId::parse(order->asker);
  if (!asker) return fail(asker.error().within("CollectAnswers.asker"));
  if (asker->key() != envelope.source_proc() || asker->host().key() != envelope.source_host())
    return fail(ErrorCode::identity_mismatch,
                "CollectAnswers.asker: '" + asker->to_string() + "' is not who asks");
  auto reducer = Reducers::builtin().find(order->reducer);
  if (!reducer) return fail(reducer.error());
  const Mesh* mesh = table_.find_mesh(order->mesh);
  if (mesh == nullptr)
    return fail(ErrorCode::not_exist, "host " + host_.to_string() + " has no mesh " +
                                          cut_text(order->mesh, kCollectedTextLimit));
  const auto known = askers_.find(asker->to_string());
  if (known != askers_.end() && known->second >= kMostOfAsker)
    return fail(too_many(host_.to_string(), kMostOfAsker, " questions of one asker"));
  if (open_.size() >= kMost) return fail(too_many(host_.to_string(), kMost, " questions"));
  std::uint64_t count = 0;
  for (const RankBlock& block : order->ranks) count += block.size();
  if (count > kMostRanks - num_ranks_)
    return fail(too_many(host_.to_string(), kMostRanks, " ranks"));
  if (open_.contains(order->ticket))
    return fail(ErrorCode::refused, "CollectAnswers.ticket: somebody has that one");

  const auto ticket = order->ticket;
  auto& open =
      open_.try_emplace(ticket, Collection(std::move(*reducer), count), *asker, envelope, header)
          .first->second;
  open.mesh = order->mesh;
  open.has_parts = order->has_parts;
  fill(open, *order, *mesh);
  look(ticket, open);
  num_ranks_ += count;
  ++askers_[asker->to_string()];
  events_.on_asker(*asker);
  open.limit = bus_.reactor().after(order->limit, [this, ticket, limit = order->limit] {
    auto& late = open_.at(ticket);
    late.limit = 0;
    late.collection.settle_rest(
        Error(ErrorCode::timeout, "no answer within " + duration_to_text(limit)));
    finish(ticket);
  });
  go_on(ticket);
  return {};
}

void Collections::fill(Open& open, const CollectOrder& order, const Mesh& mesh) const {
  // One error for all ranks of a kind, however many a request names.
  const auto no_such = [](std::string text) {
    return Result<Bytes>(fail(ErrorCode::no_such_proc, std::move(text)));
  };
  const auto missing =
      no_such("host " + host_.to_string() + " has no such rank of mesh " + mesh.name);
  const auto ended = no_such("its proc has ended");
  const auto plain = no_such("it is a plain proc, which answers nobody");
  const auto now = bus_.reactor().now();
  const auto may_have_heard = [since = now_ns() - kHeardLimit.count()](const Proc& dead) {
    return dead.launch.is_born() && dead.state.to_wire().ended_ns() > since;
  };
  for (const RankBlock& block : order.ranks) {
    for (std::uint64_t rank = block.begin; rank < block.end; ++rank) {
      const std::uint64_t index = open.members.size();
      const Proc* proc = mesh.find(rank);
      const bool has_ended = proc != nullptr && proc->has_ended();
      if (proc == nullptr || mesh.spec.kind != wire::ProcKind::mesh ||
          (has_ended && !may_have_heard(*proc))) {
        open.members.push_back({rank, 0});
        open.collection.settle(index, proc == nullptr ? missing : has_ended ? ended : plain, now);
        continue;
      }
      open.members.push_back({rank, proc->state.to_wire().incarnation()});
      open.index_of_proc.emplace(proc->key, index);
    }
  }
}

void Collections::on_answer(const wire::Envelope& envelope, Bytes body) {
  const auto reply = decode_collected_answer(body);
  if (!reply) return log::debug("an answer is dropped: " + reply.error().to_string());
  // The asker may have gone, or have waited long enough.
  const auto found = open_.find(reply->ticket);
  if (found == open_.end() || envelope.source_host() != host_.key()) return;
  Open& open = found->second;
  const auto index = open.index_of_proc.find(envelope.source_proc());
  if (index == open.index_of_proc.end() ||
      open.members[index->second].incarnation != envelope.source_incarnation())
    return log::warn("an answer is dropped: it does not come from one that was asked");
  open.collection.settle(index->second, reply->answer, bus_.reactor().now());
  go_on(found->first);
}

void Collections::on_end(const wire::Envelope& envelope, Bytes body) {
  wire::CollectedHeader header;
  if (!take_header(body, header)) return;
  const auto found = open_.find(header.ticket());
  if (found == open_.end() || found->second.envelope.source_proc() != envelope.source_proc() ||
      found->second.envelope.source_host() != envelope.source_host())
    return;
  bus_.fail_call(found->second.envelope, found->second.header,
                 Error(ErrorCode::refused, "who asked wants no more of it"));
  remove(header.ticket());
}

void Collections::flush() {
  const auto marked = std::exchange(marked_, {});
  if (marked.empty()) return;
  for (auto& [ticket, open] : open_) {
    if (marked.contains(open.mesh)) look(ticket, open);
  }
}

void Collections::look(std::uint64_t ticket, Open& open) {
  const Mesh* mesh = table_.find_mesh(open.mesh);
  for (std::uint64_t index = 0; index < open.members.size(); ++index) {
    if (!open.collection.is_open(index)) continue;
    const Member& member = open.members[index];
    const Proc* proc = mesh == nullptr ? nullptr : mesh->find(member.rank);
    if (proc != nullptr && !proc->has_ended() &&
        proc->state.to_wire().incarnation() == member.incarnation)
      continue;
    if (!open.ending.insert(index).second) continue;
    bus_.reactor().after(kLastAnswerLimit,
                         [this, ticket, index, alive = std::weak_ptr<void>(alive_)] {
                           if (!alive.expired()) give_up(ticket, index);
                         });
  }
}

void Collections::give_up(std::uint64_t ticket, std::uint64_t index) {
  const auto found = open_.find(ticket);
  if (found == open_.end()) return;
  Open& open = found->second;
  const Member& member = open.members[index];
  const Mesh* mesh = table_.find_mesh(open.mesh);
  const Proc* proc = mesh == nullptr ? nullptr : mesh->find(member.rank);
  std::string text = "its proc has ended";
  if (proc != nullptr && proc->has_ended()) text += ": " + status_of(*proc).to_string();
  open.collection.settle(index, fail(ErrorCode::fate_unknown, text), bus_.reactor().now());
  go_on(ticket);
}

void Collections::go_on(std::uint64_t ticket) {
  Open& open = open_.at(ticket);
  if (open.collection.is_complete()) return finish(ticket);
  if (!open.has_parts || open.part != 0) return;
  if (const auto due = open.collection.next_due())
    open.part = bus_.reactor().at(*due, [this, ticket] { send_part(ticket); });
}

void Collections::send_part(std::uint64_t ticket) {
  Open& open = open_.at(ticket);
  open.part = 0;
  const auto part = open.collection.take(bus_.reactor().now());
  const auto bytes = with_header(wire::CollectedPart(ticket, part.parts + 1, 0), encode(part));
  const auto sent = bus_.send(Destination::back(open.envelope),
                              static_cast<std::uint32_t>(wire::CollectPort::part), bytes, true);
  // The asker counts the parts.
  if (!sent)
    log::warn("a part of what host " + host_.to_string() +
              " reduces is lost: " + sent.error().to_string());
}

void Collections::finish(std::uint64_t ticket) {
  Open& open = open_.at(ticket);
  bus_.answer_call(open.envelope, open.header, encode(open.collection.take(bus_.reactor().now())));
  remove(ticket);
}

void Collections::remove(std::uint64_t ticket) {
  const auto found = open_.find(ticket);
  bus_.reactor().cancel(found->second.limit);
  bus_.reactor().cancel(found->second.part);
  const ProcId asker = found->second.asker;
  num_ranks_ -= found->second.collection.num_ranks();
  open_.erase(found);
  const auto count = askers_.find(asker.to_string());
  if (--count->second > 0) return;
  askers_.erase(count);
  events_.on_idle(asker);
}

void Collections::drop(const std::string& asker) {
  if (!askers_.contains(asker)) return;
  std::vector<std::uint64_t> tickets;
  for (const auto& [ticket, open] : open_) {
    if (open.asker.to_string() == asker) tickets.push_back(ticket);
  }
  for (const auto ticket : tickets) remove(ticket);
}

}  // namespace meshbus::host
