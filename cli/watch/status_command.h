#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace meshbus::cli {

class Commands;
/// `meshbus status`
void add_status(CLI::App& app, Commands& commands);

}  // namespace meshbus::cli
