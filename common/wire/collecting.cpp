#include "common/wire/collecting.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/wire/actor_body.h"
#include "common/wire/control.h"
#include "common/wire/wire_table.h"
#include "common/wire/wire_values.h"
#include "wire/actors_generated.h"
#include "wire/replies_generated.h"

namespace meshbus {
namespace {

static_assert(sizeof(wire::CollectedHeader) == 16 && sizeof(wire::CollectedAnswer) == 16 &&
                  sizeof(wire::CollectedPart) == 16,
              "the layout in replies.fbs is frozen");

tl::unexpected<Error> unreadable(std::string detail) {
  return fail(ErrorCode::malformed_message, std::move(detail));
}

using WireRanks = flatbuffers::Vector<const wire::CollectedRanks*>;

std::vector<wire::CollectedRanks> to_wire(const std::vector<RankBlock>& ranks) {
  std::vector<wire::CollectedRanks> out;
  out.reserve(ranks.size());
  for (const RankBlock& block : ranks) out.emplace_back(block.begin, block.end);
  return out;
}

Result<std::vector<RankBlock>> blocks_of(const WireRanks* ranks) {
  std::vector<RankBlock> out;
  std::uint64_t last = 0, count = 0;
  if (ranks == nullptr) return out;
  for (const auto* block : *ranks) {
    if (block->begin() >= block->end() || block->begin() < last)
      return unreadable("ranks that are not ascending and disjoint");
    if (block->end() - block->begin() > kMostCollectedRanks - count) {
      return fail(ErrorCode::too_large, "more ranks than one host may be asked for: " +
                                            std::to_string(kMostCollectedRanks));
    }
    count += block->end() - block->begin();
    last = block->end();
    out.push_back({block->begin(), block->end()});
  }
  return out;
}

}  // namespace

std::string encode(const CollectOrder& order) {
  wire::CollectAnswersT out;
  out.ticket = order.ticket;
  out.mesh = order.mesh;
  out.reducer = order.reducer;
  out.ranks = to_wire(order.ranks);
  out.asker = order.asker;
  out.limit_ms =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(order.limit.count(), 0, UINT32_MAX));
  out.parts = order.has_parts;
  return write_table<wire::CollectAnswers>(out);
}

Result<CollectOrder> decode_collect_order(Bytes bytes) {
  const OpenedTable<wire::CollectAnswers> opened(bytes);
  const auto* const order = opened.get();
  if (order == nullptr) return unreadable("CollectAnswers: not well-formed");
  auto ranks = blocks_of(order->ranks());
  if (!ranks) return fail(ranks.error().within("CollectAnswers.ranks"));
  if (ranks->empty()) return unreadable("CollectAnswers.ranks: there are none");
  return CollectOrder{.ticket = order->ticket(),
                      .mesh = order->mesh()->str(),
                      .reducer = order->reducer()->str(),
                      .ranks = std::move(*ranks),
                      .asker = order->asker()->str(),
                      .limit = std::chrono::milliseconds(order->limit_ms()),
                      .has_parts = order->parts()};
}

std::string encode(const Collected& collected) {
  wire::CollectedT out;
  if (collected.reduced) out.reduced = to_vector(encode(*collected.reduced));
  for (const auto& problem : collected.problems) {
    auto one = std::make_unique<wire::CollectProblemT>();
    one->code = static_cast<std::uint16_t>(problem.error.code());
    one->detail = problem.error.detail();
    one->ranks = to_wire(problem.ranks);
    out.problems.push_back(std::move(one));
  }
  out.parts = collected.parts;
  return write_table<wire::Collected>(out);
}

Result<Collected> decode_collected(Bytes bytes) {
  const OpenedTable<wire::Collected> opened(bytes);
  const auto* const table = opened.get();
  if (table == nullptr) return unreadable("Collected: not well-formed");
  Collected collected;
  collected.parts = table->parts();
  if (table->reduced() != nullptr) {
    auto reduced = decode_partial(bytes_of(table->reduced()->data(), table->reduced()->size()));
    if (!reduced) return fail(reduced.error().within("Collected.reduced"));
    collected.reduced = std::move(*reduced);
  }
  if (table->problems() == nullptr) return collected;
  // Tables of a message may overlap: what is copied out of it is bounded by its size.
  std::size_t left = bytes.size();
  for (const auto* problem : *table->problems()) {
    const std::size_t size =
        (problem->detail() == nullptr ? 0 : problem->detail()->size()) +
        (problem->ranks() == nullptr ? 0 : problem->ranks()->size() * sizeof(wire::CollectedRanks));
    if (size > left)
      return unreadable("Collected.problems: they are longer than the whole message");
    left -= size;
    auto ranks = blocks_of(problem->ranks());
    if (!ranks) return fail(ranks.error().within("Collected.problems"));
    const auto code = from_wire(static_cast<wire::ErrorCode>(problem->code()));
    collected.problems.push_back(
        {Error(code == ErrorCode::none ? ErrorCode::internal : code, text_of(problem->detail())),
         std::move(*ranks)});
  }
  return collected;
}

std::string encode_collected_call(std::uint64_t ticket, std::chrono::milliseconds limit,
                                  Bytes actor_body) {
  const wire::CollectedHeader header(
      ticket, static_cast<std::uint32_t>(std::clamp<std::int64_t>(limit.count(), 0, UINT32_MAX)),
      0);
  return with_header(wire::ActorHeader(kCollectMessage, 0, 0), with_header(header, actor_body));
}

Result<CollectedCall> decode_collected_call(Bytes bytes) {
  wire::CollectedHeader header;
  if (!take_header(bytes, header))
    return unreadable("a message whose answer is collected, without its header");
  return CollectedCall{header.ticket(), header.limit_ms(), bytes};
}

std::string encode_collected_answer(std::uint64_t ticket, const Result<std::string>& answer) {
  if (answer && answer->size() <= kCollectedAnswerLimit)
    return with_header(wire::CollectedAnswer(ticket, 0, 0, 0), *answer);
  const Error error =
      answer ? Error(ErrorCode::too_large, "an answer of " + std::to_string(answer->size()) +
                                               " bytes; one that is reduced has at most " +
                                               std::to_string(kCollectedAnswerLimit))
             : answer.error();
  return with_header(wire::CollectedAnswer(ticket, static_cast<std::uint16_t>(error.code()), 0, 0),
                     cut_text(error.detail(), kCollectedTextLimit));
}

Result<CollectedReply> decode_collected_answer(Bytes bytes) {
  wire::CollectedAnswer header;
  if (!take_header(bytes, header))
    return unreadable("an answer that is collected, without its header");
  if (bytes.size() > (header.code() == 0 ? kCollectedAnswerLimit : kTextLimit)) {
    return CollectedReply{
        header.ticket(),
        fail(ErrorCode::too_large, "an answer of " + std::to_string(bytes.size()) + " bytes")};
  }
  if (header.code() == 0) return CollectedReply{header.ticket(), bytes};
  const auto code = from_wire(static_cast<wire::ErrorCode>(header.code()));
  return CollectedReply{header.ticket(), fail(code == ErrorCode::none ? ErrorCode::internal : code,
                                              cut_text(std::string(bytes), kCollectedTextLimit))};
}

}  // namespace meshbus
