"""The parts of the face of kbengine, by what they are about; `adapters.knowledge_base` puts them together."""
