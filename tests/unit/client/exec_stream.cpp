// The launcher's end of an exec, against a host that does not keep to the rules.
#include "client/src/monitors/exec_stream.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "wire/hands_generated.h"

using namespace meshbus;

namespace {

/// The output number `sequence`, as it comes.
flatbuffers::DetachedBuffer output(std::uint64_t sequence, std::size_t bytes) {
  wire::ExecOutputT made;
  made.sequence = sequence;
  made.data.assign(bytes, 'x');
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::ExecOutput::Pack(builder, &made));
  return builder.Release();
}

/// How many such outputs it keeps of a host that sends without end.
std::size_t kept(std::size_t bytes, std::size_t most) {
  const auto stream = std::make_shared<ExecStream>(
      ExecRequest{.host = *HostAddr::parse("unix:/h"), .mesh = "m-1", .arguments = {"true"}});
  for (std::uint64_t i = 1; i <= most; ++i)
    stream->on_output(*flatbuffers::GetRoot<wire::ExecOutput>(output(i, bytes).data()));
  std::size_t count = 0;
  while (stream->mailbox().take()) ++count;
  const auto end = stream->mailbox().end();
  REQUIRE(end.has_value());
  REQUIRE_FALSE(end->has_value());
  CHECK(end->error().detail().find("more output than is taken") != std::string::npos);
  return count;
}

}  // namespace

TEST_CASE("exec_stream: a host that sends more than is taken gets a bounded room, and the end") {
  CHECK(kept(64 * 1024, 1000) <= 18);
  CHECK(kept(0, 100'000) <= 16 * 1024 + 2);
}
