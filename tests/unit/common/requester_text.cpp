// Requesters for people: the drawn name of a launcher is left out, all others stay.
#include "common/base/requester_text.h"

#include <doctest/doctest.h>

using meshbus::requester_text;

TEST_CASE("requester_text: of a launcher or command, only the place is said") {
  CHECK(requester_text("unix:/run/h.sock,client-13Se1Maqzryj") ==
        "a command or launcher at unix:/run/h.sock");
  CHECK(requester_text("tcp:h1:7420,client-13Se1Maqzryj") ==
        "a command or launcher at tcp:h1:7420");
}

TEST_CASE(
    "requester_text: a rank, also of a mesh that is called client, and a role keep their name") {
  for (const char* text :
       {"tcp:h1:7420,client_3-13Se1Maqzryj", "tcp:h1:7420,tool", "client-1", "the warden", ""})
    CHECK(requester_text(text) == text);
}
