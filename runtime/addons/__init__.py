"""Parts of the runtime that few jobs need, each registered by its modules."""
