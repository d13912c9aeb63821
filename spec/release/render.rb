# Usage: ruby render.rb JOB_DIRECTORY < input.json > output.json
# Renders the templates of a job as the Director does. The input is a JSON object with the key "properties", and optionally "spec" (the
# instance) and "links" (which maps the name of a link to its "instances" and "properties"). The output is a JSON object that maps each
# destination to its text. If a template fails, the script prints one line to standard error and exits with 1. If the environment
# variable SHOW_PROPERTIES is set, the script prints only the properties of the job as JSON.
require 'erb'
require 'json'
require 'shellwords' # the Director has loaded this library
require 'yaml'

class UnknownProperty < StandardError; end
class UnknownLink < StandardError; end

# Lookup contains the methods p and if_p, with which templates read the properties of the job or of a link.
module Lookup
  Found = Object.new
  def Found.else; end
  def Found.else_if_p(*) = self

  class Missing
    def initialize(context) = @context = context
    def else = yield
    def else_if_p(*names, &block) = @context.if_p(*names, &block)
  end

  def p(names, *default)
    Array(names).each do |name|
      value = name.split('.').reduce(@properties) { |tree, key| tree.is_a?(Hash) ? tree[key] : nil }
      return value unless value.nil?
    end
    return default.first unless default.empty?

    raise UnknownProperty, "Can't find property '#{Array(names).join("', or '")}'"
  end

  def if_p(*names)
    yield(*names.map { |name| p(name) })
    Found
  rescue UnknownProperty
    Missing.new(self)
  end
end

# Link represents a link that the job consumes.
class Link
  include Lookup
  attr_reader :instances

  def initialize(description)
    @instances = description['instances'].map { |instance| Spec.new(instance) }
    @properties = description['properties']
  end
end

# Spec represents an instance. It has a method for each of its values, and raises an error if a template reads another value.
class Spec
  def initialize(values) = @values = values

  def method_missing(name)
    value = @values.fetch(name.to_s)
    value.is_a?(Hash) ? Spec.new(value) : value
  end

  def respond_to_missing?(name, *) = @values.key?(name.to_s)
end

# Context contains the methods that a template can call.
class Context
  include Lookup
  attr_reader :spec

  def initialize(properties, spec, links)
    @properties, @spec, @links = properties, Spec.new(spec), links
  end

  def link(name)
    Link.new(@links.fetch(name) { raise UnknownLink, "Can't find link '#{name}'" })
  end

  def get_binding = binding
end

job = ARGV.fetch(0)
input = JSON.parse($stdin.read)
release = YAML.safe_load(File.read(File.join(job, 'spec')))

# The templates can read only the properties that the job declares.
properties = {}
release.fetch('properties').each do |name, declared|
  path = name.split('.')
  configured = path.reduce(input['properties']) { |tree, key| tree.is_a?(Hash) ? tree[key] : nil }
  value = configured.nil? ? declared['default'] : configured
  path[0..-2].reduce(properties) { |tree, key| tree[key] ||= {} }[path.last] = value
end

if ENV['SHOW_PROPERTIES']
  puts JSON.generate(properties)
  exit
end

rendered = release.fetch('templates').to_h do |source, destination|
  erb = ERB.new(File.read(File.join(job, 'templates', source), encoding: 'utf-8'), trim_mode: '-')
  erb.filename = source
  [destination, erb.result(Context.new(properties, input['spec'] || {}, input['links'] || {}).get_binding)]
rescue StandardError => e
  line = e.backtrace.grep(/\A#{Regexp.escape(source)}:/).first.to_s[/:(\d+)/, 1]
  warn "Error filling in template '#{source}' (line #{line}: #{e.message})"
  exit 1
end
puts JSON.generate(rendered)
