"""How JSON bodies are read and written, fastjson's dialect included."""
