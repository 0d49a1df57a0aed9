"""How hosts reach the queue: MCP, and a plugin for Agent Zero."""
