#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace meshbus::cli {

class Commands;
/// `meshbus why`
void add_why(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
